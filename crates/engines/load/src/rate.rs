//! A rate of requests or connections that may change and ramp: a line of pieces over time.

use linerate_units::{duration_ns, packets_per_second};

/// A piece of the rate's line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Arrivals per second at its beginning.
    pub from: f64,
    /// Arrivals per second at its end.
    pub to: f64,
    /// How long it lasts in nanoseconds; the last piece may have no end, and then has one rate, or ramps until the end of the run.
    pub duration_ns: Option<u64>,
}

/// How arrivals follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gaps {
    /// As the rate says.
    #[default]
    Constant,
    /// Exponential, of that mean: a Poisson process.
    Poisson,
}

/// A rate over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate(pub Vec<Piece>);

impl Rate {
    /// Reads `RATE[..RATE][@TIME]`, several joined by commas: `10k`, `1k..10k@30s,10k`. Without a time, the last piece lasts until the end.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn parse(text: &str) -> Result<Rate, String> {
        let words: Vec<&str> = text.split(',').collect();
        let piece = |(at, word): (usize, &&str)| {
            let (rates, time) = word.split_once('@').map_or((*word, None), |(rates, time)| (rates, Some(time)));
            if time.is_none() && at + 1 < words.len() {
                return Err(format!("{word}: only the last piece of a rate may have no time; write {word}@10s"));
            }
            let number = |text: &str| packets_per_second(text).map_err(|_| wrong(text));
            let (from, to) = match rates.split_once("..") {
                Some((from, to)) => (number(from)?, number(to)?),
                None => (number(rates)?, number(rates)?),
            };
            let duration_ns = time.map(duration_ns).transpose().map_err(|error| error.to_string())?;
            Ok(Piece { from, to, duration_ns })
        };
        words.iter().enumerate().map(piece).collect::<Result<_, _>>().map(Rate)
    }

    /// The same shape with all rates times `share`.
    pub fn scaled(&self, share: f64) -> Rate {
        Rate(self.0.iter().map(|piece| Piece { from: piece.from * share, to: piece.to * share, ..*piece }).collect())
    }
}

fn wrong(text: &str) -> String {
    format!("not a rate: `{text}` (write 10k, or 1k..10k@30s,10k for a ramp over 30 seconds and then 10,000 a second)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_says_what_to_write() {
        for wrong in ["", "fast", "1k,2k", "1k@", "1k@10", "1k..", "1k..2k@5s@6s"] {
            assert!(Rate::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Rate::parse("0").unwrap().0.len(), 1);
    }
}
