//! Figures over repetitions.

/// Mean, extremes and spread of the repetitions of a measurement, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    /// Number of values. At least 1.
    pub count: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Least.
    pub minimum: f64,
    /// Greatest.
    pub maximum: f64,
    /// Standard deviation of the sample (divided by `count - 1`); 0 of one value.
    pub deviation: f64,
}

impl Statistics {
    /// Of these values. `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self {
            count: values.len(),
            mean,
            minimum: values.iter().copied().fold(f64::INFINITY, f64::min),
            maximum: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            deviation: (squares / (values.len() as f64 - 1.0).max(1.0)).sqrt(),
        })
    }
}

/// Why no procedure can be made of its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(crate) &'static str);
