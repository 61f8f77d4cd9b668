//! SYN cookies (RFC 4987 section 3.6): a handshake without memory. The initial sequence number of the answer says, under a secret, when it
//! was sent, to whom, and which MSS was agreed on; the other options lie in the timestamp that comes back.
//!
//! ```text
//! cookie      | period 5 bits | MSS 3 bits | hash 24 bits |
//! timestamp   | clock 26 bits | ECN 1 | SACK 1 | window scale 4, or 15 without |
//! ```

use crate::hash::Key;
use crate::tuple::Tuple;
use crate::{Now, Seq};

/// MSS that a cookie can say.
const SIZES: [u16; 8] = [64, 536, 1220, 1300, 1400, 1440, 1460, 8940];
/// Ticks of a period, as a shift: 65 seconds. A cookie is good in its period and the next one.
const PERIOD: u32 = 16;
const PERIODS: u32 = 32;
const NO_SCALE: u32 = 15;

/// What was agreed on in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) mss: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) ecn: bool,
}

/// Makes and reads cookies.
pub(crate) struct Cookies {
    key: Key,
    /// Tick at which the last cookie was sent.
    sent: Option<u32>,
}

impl Cookies {
    pub(crate) fn new(secret: [u8; 16]) -> Cookies {
        Cookies { key: Key::derive(secret, 4), sent: None }
    }

    /// The cookie for a SYN with number `irs`.
    pub(crate) fn make(&mut self, tuple: &Tuple, irs: Seq, mss: u16, now: Now) -> Seq {
        self.sent = Some(now.tick);
        let period = now.tick >> PERIOD;
        let size = SIZES.iter().rposition(|size| *size <= mss).unwrap_or(0) as u32;
        Seq((period % PERIODS) << 27 | size << 24 | self.hash(tuple, irs, period, size))
    }

    /// The timestamp that carries the other options: at most `clock`.
    pub(crate) fn timestamp(agreed: &Agreed, clock: u32) -> u32 {
        let scale = agreed.window_scale.map_or(NO_SCALE, u32::from);
        let bits = scale | u32::from(agreed.sack) << 4 | u32::from(agreed.ecn) << 5;
        let value = clock & !63 | bits;
        if (value.wrapping_sub(clock) as i32) > 0 { value.wrapping_sub(64) } else { value }
    }

    /// What was agreed on, if `cookie` is one that was made for a SYN with number `irs` not long ago. `echo` is the timestamp that came
    /// back.
    pub(crate) fn read(&self, tuple: &Tuple, irs: Seq, cookie: Seq, echo: Option<u32>, now: Now) -> Option<Agreed> {
        let last = self.sent?;
        if now.tick.wrapping_sub(last) > 2 << PERIOD {
            return None;
        }
        let current = now.tick >> PERIOD;
        let age = current.wrapping_sub(cookie.0 >> 27) % PERIODS;
        let size = cookie.0 >> 24 & 7;
        if age > 1
            || self.hash(tuple, irs, current.wrapping_sub(age) & (u32::MAX >> PERIOD), size) != cookie.0 & 0x00ff_ffff
        {
            return None;
        }
        let scale = echo.map(|echo| echo & 15).filter(|scale| *scale != NO_SCALE);
        Some(Agreed {
            mss: SIZES[size as usize],
            window_scale: scale.map(|scale| scale.min(14) as u8),
            sack: echo.is_some_and(|echo| echo & 16 != 0),
            timestamps: echo.is_some(),
            ecn: echo.is_some_and(|echo| echo & 32 != 0),
        })
    }

    fn hash(&self, tuple: &Tuple, irs: Seq, period: u32, size: u32) -> u32 {
        let connection = self.key.tuple(tuple);
        let words = [connection, u64::from(irs.0) << 32 | u64::from(period), 20 << 56 | u64::from(size)];
        self.key.words(words) as u32 & 0x00ff_ffff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUPLE: Tuple = Tuple { local: 1, remote: 2, local_port: 80, remote_port: 4000, v6: false };

    fn at(tick: u32) -> Now {
        Now { ns: 0, us: 0, tick }
    }

    #[test]
    fn a_cookie_comes_back_with_all_that_was_agreed_on() {
        for (scale, sack, ecn, mss, known) in
            [(Some(7), true, true, 1460, 1460), (None, false, false, 1459, 1440), (Some(0), true, false, 100, 64)]
        {
            let agreed = Agreed { mss, window_scale: scale, sack, timestamps: true, ecn };
            for tick in [0, 5, 0xffff, 0x1_0000, u32::MAX] {
                let mut cookies = Cookies::new([3; 16]);
                let cookie = cookies.make(&TUPLE, Seq(99), mss, at(tick));
                let stamp = Cookies::timestamp(&agreed, tick);
                assert!(tick.wrapping_sub(stamp) < 64 + 64, "{tick} {stamp}");
                let read = cookies.read(&TUPLE, Seq(99), cookie, Some(stamp), at(tick.wrapping_add(3000)));
                assert_eq!(read, Some(Agreed { mss: known, ..agreed }));
                let without = Agreed { mss: known, window_scale: None, sack: false, timestamps: false, ecn: false };
                assert_eq!(cookies.read(&TUPLE, Seq(99), cookie, None, at(tick)), Some(without));
            }
        }
    }

    #[test]
    fn others_and_old_ones_are_refused() {
        let mut cookies = Cookies::new([3; 16]);
        assert_eq!(cookies.read(&TUPLE, Seq(99), Seq(0), None, at(0)), None);
        let cookie = cookies.make(&TUPLE, Seq(99), 1460, at(100));
        let read = |tuple: &Tuple, irs, cookie, tick| cookies.read(tuple, irs, cookie, None, at(tick)).is_some();
        assert!(read(&TUPLE, Seq(99), cookie, 100) && read(&TUPLE, Seq(99), cookie, 0x1_ffff));
        assert!(!read(&TUPLE, Seq(99), cookie, 0x2_0000) && !read(&TUPLE, Seq(98), cookie, 100));
        assert!(!read(&TUPLE, Seq(99), cookie + 1, 100) && !read(&TUPLE, Seq(99), Seq(cookie.0 ^ 1 << 24), 100));
        assert!(!read(&Tuple { remote_port: 4001, ..TUPLE }, Seq(99), cookie, 100));
    }
}
