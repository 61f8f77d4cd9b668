//! The grammar of pcap-filter(7), as far as the subset goes.
//!
//! ```text
//! expression  term { (and | or) term }       both bind alike, from left to right
//! term        not term | ( expression ) | primitive | value
//! primitive   [protocol] [direction] [kind] value | protocol | vlan [id] | mpls [label] | less n | greater n | relation
//! value       one value | not value | ( value { (and | or) value } )
//! ```
//! Relations are in `arithmetic.rs`. A value alone has the qualifiers of the primitive before it: `port 80 or 443`. `vlan` changes what comes after it in the
//! text: those primitives look behind one more tag. So primitives are made into conditions in the order of the text.

use super::lexer::{Kind as Sign, Token};
use super::primitive::{Direction, Kind, Link, Protocol, Qualifiers};
use super::{Condition, DEPTH_MAX, LanguageError, PRIMITIVES_MAX, Tags};

pub(super) fn parse(tokens: &[Token<'_>], tags: Tags, end: usize) -> Result<Condition, LanguageError> {
    let mut parser = Parser { tokens, next: 0, end, link: Link::new(tags), last: None, primitives: 0, depth: 0 };
    let condition = parser.expression()?;
    match parser.tokens.get(parser.next) {
        None => Ok(condition),
        Some(token) => Err(parser.wrong(token.at, "the expression ends before this; is an `and` or an `or` missing?")),
    }
}

pub(super) struct Parser<'a> {
    pub tokens: &'a [Token<'a>],
    pub next: usize,
    /// Place past the end of the text.
    end: usize,
    pub link: Link,
    /// Qualifiers of the last primitive, for values alone.
    pub last: Option<Qualifiers>,
    primitives: usize,
    pub depth: usize,
}

type Parsed = Result<Condition, LanguageError>;

impl<'a> Parser<'a> {
    fn expression(&mut self) -> Parsed {
        let mut condition = self.term()?;
        while let Some(is_and) = self.junction() {
            let other = self.term()?;
            condition = if is_and { condition.and(other) } else { condition.or(other) };
        }
        Ok(condition)
    }

    /// `and` or `or`.
    fn junction(&mut self) -> Option<bool> {
        let is_and = match self.peek()? {
            Sign::And => true,
            Sign::Or => false,
            _ => return None,
        };
        self.next += 1;
        Some(is_and)
    }

    fn term(&mut self) -> Parsed {
        let at = self.place();
        if self.at_relation() {
            return self.relation();
        }
        match self.peek() {
            Some(Sign::Not) => self.deeper(|parser| Ok(parser.term()?.not())),
            Some(Sign::Open) => self.deeper(|parser| {
                let condition = parser.expression()?;
                parser.close(at)?;
                Ok(condition)
            }),
            Some(Sign::Word(word)) => self.primitive(word, at),
            Some(_) => Err(self.wrong(at, "here a primitive is missing, such as `host 10.0.0.1`")),
            None => Err(self.wrong(at, "the expression ends where a primitive is missing")),
        }
    }

    /// Takes the sign that is next and goes a level deeper.
    fn deeper(&mut self, inner: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth == DEPTH_MAX {
            return Err(self.wrong(self.place(), &format!("nested more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        self.next += 1;
        let condition = inner(self);
        self.depth -= 1;
        condition
    }

    pub(super) fn close(&mut self, opened_at: usize) -> Result<(), LanguageError> {
        if self.peek() != Some(Sign::Close) {
            return Err(
                self.wrong(self.place(), &format!("the parenthesis of character {opened_at} is not closed here"))
            );
        }
        self.next += 1;
        Ok(())
    }

    fn primitive(&mut self, word: &'a str, at: usize) -> Parsed {
        match word {
            "vlan" => {
                self.next += 1;
                let id = self.number_if_there(4095)?;
                self.last = None;
                self.counted(at)?;
                return self.link.vlan(id).map_err(|problem| self.wrong(at, &problem));
            }
            "mpls" => {
                self.next += 1;
                let label = self.number_if_there(0xf_ffff)?;
                self.last = None;
                self.counted(at)?;
                return Ok(self.link.mpls(label));
            }
            "less" | "greater" => {
                self.next += 1;
                let len = self.number_if_there(u32::MAX)?;
                let len = len.ok_or_else(|| self.wrong(self.place(), &format!("{word} needs a length in bytes")))?;
                self.last = None;
                self.counted(at)?;
                return Ok(self.link.len(word == "greater", len));
            }
            _ => {}
        }
        let protocol = Protocol::of(word);
        if protocol.is_some() {
            self.next += 1;
        }
        if protocol.is_none_or(Protocol::has_casts)
            && let Some(Sign::Word(cast @ ("broadcast" | "multicast"))) = self.peek()
        {
            self.next += 1;
            self.last = None;
            self.counted(at)?;
            return self.link.cast(protocol, cast == "broadcast").map_err(|problem| self.wrong(at, &problem));
        }
        let direction = self.direction();
        let kind = self.kind();
        if direction.is_none() && kind.is_none() {
            return match protocol {
                Some(protocol) => {
                    self.last = None;
                    self.counted(at)?;
                    self.link.protocol(protocol).map_err(|problem| self.wrong(at, &problem))
                }
                None if Self::is_keyword(word) => Err(self.wrong(at, &outside(word))),
                None => match self.last {
                    Some(qualifiers) => self.value(qualifiers),
                    None => Err(self.wrong(at, &unknown(word))),
                },
            };
        }
        let qualifiers = Qualifiers {
            protocol,
            direction: direction.unwrap_or(Direction::Either),
            kind: kind.unwrap_or(Kind::Host),
        };
        self.last = Some(qualifiers);
        self.values(qualifiers)
    }

    fn direction(&mut self) -> Option<Direction> {
        let word = |parser: &Self, ahead: usize| parser.tokens.get(parser.next + ahead).map(|token| token.kind);
        let (first, second) = match word(self, 0)? {
            Sign::Word("src") => (Direction::Source, "dst"),
            Sign::Word("dst") => (Direction::Destination, "src"),
            _ => return None,
        };
        let both = match word(self, 1) {
            Some(Sign::Or) => Direction::Either,
            Some(Sign::And) => Direction::Both,
            _ => first,
        };
        if both != first && word(self, 2) == Some(Sign::Word(second)) {
            self.next += 3;
            return Some(both);
        }
        self.next += 1;
        Some(first)
    }

    fn kind(&mut self) -> Option<Kind> {
        let kind = match self.peek()? {
            Sign::Word("host") => Kind::Host,
            Sign::Word("net") => Kind::Net,
            Sign::Word("port") => Kind::Port,
            Sign::Word("portrange") => Kind::PortRange,
            Sign::Word("proto") => Kind::Protocol,
            Sign::Word("protochain") => Kind::Chain,
            _ => return None,
        };
        self.next += 1;
        Some(kind)
    }

    /// What follows qualifiers: a value, or several in parentheses.
    fn values(&mut self, qualifiers: Qualifiers) -> Parsed {
        let at = self.place();
        match self.peek() {
            Some(Sign::Not) => self.deeper(|parser| Ok(parser.values(qualifiers)?.not())),
            Some(Sign::Open) => self.deeper(|parser| {
                let mut condition = parser.values(qualifiers)?;
                while let Some(is_and) = parser.junction() {
                    let other = parser.values(qualifiers)?;
                    condition = if is_and { condition.and(other) } else { condition.or(other) };
                }
                parser.close(at)?;
                Ok(condition)
            }),
            _ => self.value(qualifiers),
        }
    }

    fn value(&mut self, qualifiers: Qualifiers) -> Parsed {
        let at = self.place();
        let Some(Sign::Word(word)) = self.peek() else {
            return Err(self.wrong(at, &format!("here {} is missing", qualifiers.kind.wanted())));
        };
        self.next += 1;
        self.counted(at)?;
        // `net 10.0.0.0 mask 255.0.0.0`
        let mask = match (qualifiers.kind, self.peek(), self.tokens.get(self.next + 1).map(|token| token.kind)) {
            (Kind::Net, Some(Sign::Word("mask")), Some(Sign::Word(mask))) => {
                self.next += 2;
                Some(mask)
            }
            _ => None,
        };
        self.link.value(qualifiers, word, mask).map_err(|problem| self.wrong(at, &problem))
    }

    fn number_if_there(&mut self, max: u32) -> Result<Option<u32>, LanguageError> {
        let Some(Sign::Word(word)) = self.peek() else { return Ok(None) };
        if !word.starts_with(|letter: char| letter.is_ascii_digit()) {
            return Ok(None);
        }
        let at = self.place();
        let number = super::primitive::number(word, max).map_err(|problem| self.wrong(at, &problem))?;
        self.next += 1;
        Ok(Some(number))
    }

    pub(super) fn counted(&mut self, at: usize) -> Result<(), LanguageError> {
        self.primitives += 1;
        if self.primitives > PRIMITIVES_MAX {
            return Err(self.wrong(at, &format!("more than {PRIMITIVES_MAX} primitives")));
        }
        Ok(())
    }

    pub(super) fn peek(&self) -> Option<Sign<'a>> {
        self.tokens.get(self.next).map(|token| token.kind)
    }

    /// Where the next token is.
    pub(super) fn place(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |token| token.at)
    }

    pub(super) fn wrong(&self, at: usize, problem: &str) -> LanguageError {
        LanguageError { at, problem: problem.into() }
    }

    /// Words that libpcap knows and this subset does not.
    fn is_keyword(word: &str) -> bool {
        const OUTSIDE: [&str; 33] = [
            "gateway",
            "inbound",
            "outbound",
            "ifname",
            "on",
            "rnr",
            "rulenum",
            "reason",
            "rset",
            "ruleset",
            "srnr",
            "subrulenum",
            "action",
            "wlan",
            "fddi",
            "tr",
            "ppp",
            "pppoed",
            "pppoes",
            "geneve",
            "decnet",
            "iso",
            "clnp",
            "esis",
            "isis",
            "lat",
            "moprc",
            "mopdl",
            "atalk",
            "aarp",
            "ipx",
            "netbeui",
            "stp",
        ];
        OUTSIDE.contains(&word)
    }
}

fn outside(word: &str) -> String {
    format!("`{word}` needs libpcap's compiler (install libpcap); without it there are: {}", super::SUBSET)
}

fn unknown(word: &str) -> String {
    format!("`{word}` is not known; without libpcap there are: {}", super::SUBSET)
}
