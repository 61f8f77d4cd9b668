//! Meters (section 6.5.6 of the messages, 5.7 of the pipeline).

use std::sync::Arc;

use linerate_flow_tables::MeterView;
use linerate_openflow::{
    Band, BandKind, ErrorKind, METER_ALL, METER_CONTROLLER, METER_SLOWPATH, MeterCommand, MeterFlags, MeterMod, OfError,
};

use super::Switch;

/// Most meters of a switch.
pub(super) const METERS_MAX: u32 = 65_536;
/// Most bands of a meter.
pub(super) const BANDS_MAX: usize = 16;
/// Highest number of a meter that entries can use (`OFPM_MAX`).
const METER_MAX: u32 = 0xffff_0000;

/// A meter as it was added.
pub(super) struct Meter {
    pub(super) flags: MeterFlags,
    pub(super) bands: Vec<Band>,
    pub(super) view: Arc<MeterView>,
    pub(super) created_ns: u64,
}

impl Switch {
    /// Changes meters.
    ///
    /// # Errors
    /// What the specification says of the request; nothing has changed then.
    pub fn meter_mod(&mut self, request: MeterMod, now_ns: u64) -> Result<(), OfError> {
        self.tables.note_time(now_ns);
        match request.command {
            MeterCommand::Add => {
                check_number(request.meter)?;
                if self.meters.contains_key(&request.meter) {
                    return Err(ErrorKind::MeterModFailedMeterExists.into());
                }
                if self.meters.len() >= METERS_MAX as usize {
                    return Err(ErrorKind::MeterModFailedOutOfMeters.into());
                }
                self.set_meter(request, 0, self.tables.time_ns())
            }
            MeterCommand::Modify => {
                let known = self.meters.get(&request.meter).map(|meter| (meter.view.flows(), meter.created_ns));
                let (flows, created_ns) = known.ok_or(OfError(ErrorKind::MeterModFailedUnknownMeter))?;
                self.set_meter(request, flows, created_ns)
            }
            MeterCommand::Delete => {
                self.delete_meters(request.meter);
                Ok(())
            }
        }
    }

    fn set_meter(&mut self, request: MeterMod, flows: u32, created_ns: u64) -> Result<(), OfError> {
        check_bands(&request)?;
        let MeterMod { meter: id, flags, bands, .. } = request;
        let view = Arc::new(MeterView::new(flags, &bands, flows, self.options.tables.workers));
        self.meters.insert(id, Meter { flags, bands, view: Arc::clone(&view), created_ns });
        self.tables.change_state(|state| {
            state.meters.insert(id, view);
        });
        Ok(())
    }

    /// Deletes a meter, or all, with the entries that use it.
    fn delete_meters(&mut self, wanted: u32) {
        let doomed: Vec<u32> = match wanted {
            METER_ALL => self.meters.keys().copied().collect(),
            one => self.meters.contains_key(&one).then_some(one).into_iter().collect(),
        };
        self.tables.remove_users_of_meters(&doomed);
        for meter in &doomed {
            self.meters.remove(meter);
        }
        if !doomed.is_empty() {
            self.tables.change_state(|state| doomed.iter().for_each(|meter| state.meters.remove(*meter)));
        }
    }
}

fn check_number(meter: u32) -> Result<(), OfError> {
    let is_virtual = meter == METER_CONTROLLER || meter == METER_SLOWPATH;
    if meter == 0 || meter > METER_MAX && !is_virtual {
        return Err(ErrorKind::MeterModFailedInvalidMeter.into());
    }
    Ok(())
}

fn check_bands(request: &MeterMod) -> Result<(), OfError> {
    let flags = request.flags;
    if flags.0 & !MeterFlags::ALL != 0 || flags.has(MeterFlags::KBPS) && flags.has(MeterFlags::PKTPS) {
        return Err(ErrorKind::MeterModFailedBadFlags.into());
    }
    if request.bands.len() > BANDS_MAX {
        return Err(ErrorKind::MeterModFailedOutOfBands.into());
    }
    for band in &request.bands {
        if band.rate == 0 {
            return Err(ErrorKind::MeterModFailedBadRate.into());
        }
        // The drop precedence of assured forwarding has three levels (RFC 2597).
        if matches!(band.kind, BandKind::DscpRemark(levels) if levels > 2) {
            return Err(ErrorKind::MeterModFailedBadBandValue.into());
        }
    }
    Ok(())
}
