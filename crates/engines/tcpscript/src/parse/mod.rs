//! Reading scripts: scenarios of lines, lines of words. Nothing that a text says makes the reader panic.

mod line;
mod segment;
mod words;

use crate::script::{Action, Scenario, Script, Step, When};
use words::Words;

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to write.
    pub text: String,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The first line that cannot be understood, and why.
    pub fn parse(text: &str) -> Result<Script, ParseError> {
        let mut reader = Reader::default();
        for (number, line) in text.lines().enumerate() {
            reader.line(number + 1, line).map_err(|text| ParseError { line: number + 1, text })?;
        }
        if let Some((line, _)) = reader.batch {
            return Err(ParseError { line, text: "the batch has no end; write `}` behind its last segment".into() });
        }
        Ok(Script { scenarios: reader.scenarios })
    }
}

/// The state between lines.
#[derive(Default)]
struct Reader {
    scenarios: Vec<Scenario>,
    /// The batch that is open: line of its start, and the step that it will be.
    batch: Option<(usize, Step)>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let mut words = Words::new(line)?;
        match words.peek() {
            None => return Ok(()),
            Some("scenario") => return self.scenario(number, &mut words),
            _ => {}
        }
        let Some(scenario) = self.scenarios.last_mut() else {
            return Err("a script begins with `scenario NAME`".into());
        };
        match words.peek() {
            Some("set") if scenario.steps.is_empty() && self.batch.is_none() => {
                words.next();
                let name = words.want("the name of a setting")?.to_string();
                scenario.settings.push((name, words.want("the value of the setting")?.to_string()));
                return words.end();
            }
            Some("}") => {
                words.next();
                let (_, step) = self.batch.take().ok_or("`}` without a batch; `{` begins one")?;
                scenario.steps.push(step);
                return words.end();
            }
            _ => {}
        }
        for step in line::steps(number, &mut words)? {
            let begins_batch = matches!(&step.action, Action::Deliver(none) if none.is_empty());
            match &mut self.batch {
                None if begins_batch => self.batch = Some((number, step)),
                None => scenario.steps.push(step),
                Some((_, batch)) => add_to(batch, step)?,
            }
        }
        Ok(())
    }

    fn scenario(&mut self, number: usize, words: &mut Words) -> Result<(), String> {
        words.next();
        if self.batch.is_some() {
            return Err("the batch before it has no end; write `}`".into());
        }
        let name = words.want("the name of the scenario")?.to_string();
        let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if !name.chars().all(good) {
            return Err(format!("not a name: {name}; names have small letters, digits and `_`"));
        }
        if self.scenarios.iter().any(|other| other.name == name) {
            return Err(format!("there is a scenario {name} already"));
        }
        self.scenarios.push(Scenario { name, line: number, settings: Vec::new(), steps: Vec::new() });
        words.end()
    }
}

/// Adds what arrives to a batch.
fn add_to(batch: &mut Step, step: Step) -> Result<(), String> {
    match (&mut batch.action, step.action) {
        (Action::Deliver(messages), Action::Deliver(more)) if step.when == When::NOW && !more.is_empty() => {
            messages.extend(more);
            Ok(())
        }
        _ => Err("a batch holds segments that arrive (`<`), without times".into()),
    }
}

impl When {
    /// At the moment of the step before.
    pub(crate) const NOW: When = When { from_ns: 0, to_ns: 0 };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{AppExpectation, Bound, Call, Message, Numbers, Relation};

    fn only(line: &str) -> Step {
        let script = Script::parse(&format!("scenario a\n{line}\n")).unwrap();
        script.scenarios[0].steps[0].clone()
    }

    fn error(line: &str) -> String {
        Script::parse(&format!("scenario a\n{line}\n")).unwrap_err().text
    }

    #[test]
    fn segments_are_read() {
        let step = only("+10ms b: > SA 0 ack 1 win >=1000 mss 1460 sackok ts *:1000 nows push ect0");
        assert_eq!((step.when.from_ns, step.flow.as_str()), (10_000_000, "b"));
        let Action::Expect(Message::Segment(segment)) = step.action else { panic!("no segment") };
        assert_eq!((segment.flags, segment.seq, segment.len), (Some(0x12), Some(0), Some(0)));
        assert_eq!((segment.ack, segment.window), (Bound::Is(1), Bound::AtLeast(1000)));
        assert_eq!((segment.mss.clone(), segment.window_scale.clone()), (Numbers::Is(1460), Numbers::Absent));
        let step = only("< A 1001:2001 ack 1 sack 3001:4001,5001:6001 # a comment");
        let Action::Deliver(messages) = step.action else { panic!("no delivery") };
        let Message::Segment(segment) = &messages[0].1 else { panic!("no segment") };
        assert_eq!((segment.seq, segment.len), (Some(1001), Some(1000)));
        assert_eq!(segment.sack, Numbers::Is(vec![(3001, 4001), (5001, 6001)]));
    }

    #[test]
    fn a_train_is_many_segments() {
        let script = Script::parse("scenario a\n> A 1:3001 ack 1 by 1000\n").unwrap();
        let start_of = |step: &Step| match &step.action {
            Action::Expect(Message::Segment(segment)) => (segment.seq, segment.len),
            _ => panic!("no segment"),
        };
        let starts: Vec<_> = script.scenarios[0].steps.iter().map(start_of).collect();
        assert_eq!(starts, [(Some(1), Some(1000)), (Some(1001), Some(1000)), (Some(2001), Some(1000))]);
    }

    #[test]
    fn batches_calls_and_checks_are_read() {
        let text = "scenario a\nset mtu 1500\n+1ms {\n< A 1 ack 1\n< A 1:2 ack 1\n}\nsend 100\napp got 5\ncheck cwnd>=10 state=established\nquiet 1s\nfail connect not-unicast remote=224.0.0.1\n";
        let scenario = Script::parse(text).unwrap().scenarios.remove(0);
        assert_eq!(scenario.settings, [("mtu".to_string(), "1500".to_string())]);
        let Action::Deliver(messages) = &scenario.steps[0].action else { panic!("no batch") };
        assert_eq!((messages.len(), scenario.steps[0].line), (2, 3));
        assert_eq!(scenario.steps[1].action, Action::Call(Call::Send(100)));
        assert_eq!(scenario.steps[2].action, Action::App(AppExpectation::Got(5)));
        let Action::Check(checks) = &scenario.steps[3].action else { panic!("no check") };
        assert_eq!(checks[0], ("cwnd".into(), Relation::AtLeast, "10".into()));
        assert_eq!(scenario.steps[4].action, Action::Quiet(1_000_000_000));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            ("> Q 0", "flags"),
            ("> A 5:1", "ends before"),
            ("< A 1 ack", "a number"),
            ("< A 1 ack x", "not a number: x"),
            ("< A 1 wim 5", "win"),
            ("+5 > A 1", "duration"),
            ("sned 5", "send"),
            ("}", "without a batch"),
            ("app got", "number of bytes"),
            ("< A 1:9999999 by 1", "segments"),
            ("check cwnd", "value"),
            ("scenario a", "already"),
            ("scenario A", "not a name"),
            ("send \"abc", "quote"),
        ] {
            let text = error(line);
            assert!(text.contains(words), "{line}: {text}");
        }
        assert!(Script::parse("listen\n").unwrap_err().text.contains("scenario NAME"));
        assert!(Script::parse("scenario a\n{\n< A 1\n").unwrap_err().text.contains("no end"));
        assert!(Script::parse("scenario a\n{\n+1ms < A 1\n}\n").unwrap_err().text.contains("without times"));
    }
}
