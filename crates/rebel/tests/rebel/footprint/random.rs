//! Random specifications: one class with a field of each kind, whose events read, change, ask and call all that there is.

use std::fmt::Write;

use crate::chance::Chance;

const EVENTS: usize = 4;

/// What an event may use.
struct Writer<'c> {
    chance: &'c mut Chance,
    /// Whether it asks other instances, and which events do not.
    asks: bool,
    quiet: Vec<usize>,
    index: usize,
    /// Integers that the event has named.
    lets: Vec<String>,
    /// Variables of aggregates and `for`.
    locals: Vec<(String, &'static str)>,
}

/// The text of a specification.
pub(crate) fn specification(chance: &mut Chance) -> String {
    let mut text = "
enum Kind { plain, gold }
record Rec
  x: Integer
  y: Integer
fn twice(of: Integer): Integer = of + of
class T
  n: Integer = 0
  q: Integer = 1
  m: Money = EUR 0.00
  d: Decimal(2) = 1.00
  flag: Boolean = false
  kind: Kind = Kind.plain
  s: Set[Integer] = {}
  e: Map[Integer, Integer] = {}
  l: List[Integer] = []
  o: Integer? = none
  r: Rec = Rec(x: 1, y: 2)
  until: Timestamp? = none
  peer: T
  peers: Set[T] = {}
"
    .to_owned();
    let asks: Vec<bool> = (0..EVENTS).map(|_| chance.below(2) == 0).collect();
    let quiet = |index: usize| (index + 1..EVENTS).filter(|event| !asks[*event]).collect::<Vec<_>>();
    for _ in 0..chance.below(3) {
        let mut writer = Writer::new(chance, false, Vec::new(), EVENTS);
        // Invariants know no argument.
        let rule =
            ["n >= 0", "n + q <= 5", "m >= 0", "s.size < 3", "not (1 in s)", "e.get(1) ?? 0 <= 2", "flag or n < 3"];
        writeln!(text, "  invariant {}", writer.pick(&rule)).unwrap();
    }
    text += "  initial none_\n    on Make(with_: T): open\n      post: this.peer = with_\n";
    for (index, asks) in asks.iter().enumerate() {
        text += &Writer::new(chance, *asks, quiet(index), index).event();
    }
    text +=
        "  open, shut\n    read on Look(k: Integer) -> Integer\n      pre: n >= k\n      return: n + (e.get(k) ?? 0)\n";
    if chance.below(2) == 0 {
        let at = if chance.below(2) == 0 { "until" } else { "(if flag then until else none)" };
        writeln!(text, "  shut\n    on Expire(): gone\n    after {at}: Expire").unwrap();
    }
    text + "  final gone\n"
}

impl<'c> Writer<'c> {
    fn new(chance: &'c mut Chance, asks: bool, quiet: Vec<usize>, index: usize) -> Self {
        Self { chance, asks, quiet, index, lets: Vec::new(), locals: Vec::new() }
    }

    fn pick(&mut self, of: &[&str]) -> String {
        self.chance.pick(of).to_owned()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.chance.below(count) == 0
    }

    fn event(&mut self) -> String {
        let states = self.pick(&["open", "shut", "open, shut"]);
        let has_variants = self.one_in(5);
        let target = if has_variants { String::new() } else { self.pick(&["", "", ": open", ": shut"]) };
        let result = if self.one_in(3) { " -> Integer" } else { "" };
        let mut text = format!(
            "  {states}\n    on E{}(k: Integer, j: Integer, x: Money, p: T, ks: Set[Integer], ps: Set[T]){result}{target}\n",
            self.index
        );
        for number in 0..self.chance.below(3) {
            let value = self.integer(2);
            writeln!(text, "      {} a{number} = {value}", if number == 0 { "let:" } else { "    " }).unwrap();
            self.lets.push(format!("a{number}"));
        }
        let guards: Vec<String> = (0..self.chance.below(3)).map(|_| self.guard()).collect();
        text += &section("pre", &guards);
        let mut fields = vec!["n", "q", "m", "d", "flag", "kind", "s", "e", "l", "o", "r", "until", "peer", "peers"];
        let count = self.chance.below(4);
        let effects: Vec<String> = (0..count).map(|_| self.effect(&mut fields)).collect();
        text += &section("post", &effects);
        let count = self.chance.below(3);
        let calls: Vec<String> = (0..count).filter_map(|_| self.call()).collect();
        if !calls.is_empty() {
            writeln!(text, "      sync:\n        {}", calls.join("\n        ")).unwrap();
        }
        if has_variants {
            for number in 0..2 {
                let target = self.pick(&["", ": open", ": shut"]);
                writeln!(text, "      variant v{number}{target}").unwrap();
                // Behind a variant each of them is a question.
                let count = self.chance.below(2);
                let guards: Vec<String> =
                    (0..count).map(|_| if self.asks { self.guard() } else { self.condition(2) }).collect();
                text += &section("  pre", &guards);
                let effects: Vec<String> =
                    (0..self.chance.below(2)).map(|_| self.effect(&mut fields.clone())).collect();
                text += &section("  post", &effects);
            }
        }
        if !result.is_empty() {
            let value = self.integer(1);
            let after =
                self.pick(&["", "", " + this.n", " + this.s.size", " + (this.e.get(k) ?? 0)", " + this.l.size"]);
            writeln!(text, "      return: {value}{after}").unwrap();
        }
        text
    }

    fn local(&mut self, ty: &str) -> Option<String> {
        let known: Vec<String> = self.locals.iter().filter(|(_, of)| *of == ty).map(|(name, _)| name.clone()).collect();
        known.last().filter(|_| self.chance.below(2) == 0).cloned()
    }

    fn with_local<T>(&mut self, ty: &'static str, make: impl FnOnce(&mut Self, &str) -> T) -> T {
        let name = format!("v{}", self.locals.len());
        self.locals.push((name.clone(), ty));
        let made = make(self, &name);
        self.locals.pop();
        made
    }

    /// An integer that reads no place.
    fn fixed(&mut self) -> String {
        if let Some(local) = self.local("Integer") {
            return local;
        }
        self.pick(&["k", "k", "j", "0", "1", "2", "ks.size"])
    }

    fn instance(&mut self) -> String {
        if let Some(local) = self.local("T") {
            return local;
        }
        match self.chance.below(8) {
            0..3 => "p".to_owned(),
            3..5 => "peer".to_owned(),
            5 => "T[\"b\"]".to_owned(),
            6 if self.asks => "peer.peer".to_owned(),
            _ => "(if k > 0 then p else peer)".to_owned(),
        }
    }

    fn integer(&mut self, depth: usize) -> String {
        if depth == 0 || self.one_in(3) {
            let fixed = self.fixed();
            return match self.chance.below(12) {
                0..3 => "n".to_owned(),
                3 => "q".to_owned(),
                4 => "s.size".to_owned(),
                5 => "r.x".to_owned(),
                6 if !self.lets.is_empty() => self.lets[self.chance.below(self.lets.len())].clone(),
                7 => format!("(e.get({fixed}) ?? 0)"),
                8 => format!("e[{fixed}]"),
                9 => "(o ?? 2)".to_owned(),
                10 if self.asks => {
                    let of = self.instance();
                    let question =
                        [format!("{of}.n"), format!("{of}.Look({fixed})"), format!("(if {of} is open then 1 else 0)")];
                    question[self.chance.below(question.len())].clone()
                }
                _ => fixed,
            };
        }
        let (a, b) = (self.integer(depth - 1), self.integer(depth - 1));
        match self.chance.below(9) {
            0..2 => format!("({a} + {b})"),
            2..4 => format!("({a} - {b})"),
            4 => format!("({a} * {b})"),
            5 => format!("min({a}, {b})"),
            6 => format!("twice({a})"),
            7 => {
                let condition = self.condition(depth - 1);
                format!("(if {condition} then {a} else {b})")
            }
            _ => {
                let domain = self.pick(&["s", "ks", "l", "e.keys", "1 .. 2"]);
                let body = self.with_local("Integer", |writer, _| writer.integer(depth - 1));
                let name = format!("v{}", self.locals.len());
                match self.chance.below(3) {
                    0 => format!("count({name} in {domain} where {name} > 0)"),
                    1 => format!("sum({name} in {domain}: {body}, {a})"),
                    _ => format!("sum({name} in {domain}: {body})"),
                }
            }
        }
    }

    fn amount(&mut self) -> String {
        self.pick(&["m", "x", "EUR 1.00", "(m - x)", "(m + x)", "(m * q)", "(x * k)", "(m + EUR 1.00)"])
    }

    fn condition(&mut self, depth: usize) -> String {
        let fixed = self.fixed();
        if depth == 0 || self.one_in(3) {
            let compare = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
            return match self.chance.below(12) {
                0..4 => format!("{} {compare} {}", self.integer(1), self.integer(1)),
                4..6 => format!("{} {compare} {}", self.amount(), self.amount()),
                6 => "flag".to_owned(),
                7 => format!("{fixed} in s"),
                8 => format!("{fixed} in e"),
                9 => format!("{fixed} in l"),
                10 if self.asks => {
                    let of = self.instance();
                    let mut questions =
                        vec![format!("{of} is open"), format!("{of} is initialized"), format!("{of}.flag")];
                    if !self.quiet.is_empty() {
                        let event = self.quiet[self.chance.below(self.quiet.len())];
                        let of = self.pick(&["p", "peer", "T[\"b\"]"]);
                        questions.push(format!("can {of}.E{event}({}, 1, x, p, ks, ps)", self.fixed()));
                    }
                    format!("({})", questions[self.chance.below(questions.len())])
                }
                _ => format!("{} in 0 .. {}", self.integer(1), self.integer(1)),
            };
        }
        let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
        match self.chance.below(5) {
            0 => format!("(({a}) and ({b}))"),
            1 => format!("(({a}) or ({b}))"),
            2 => format!("(not ({a}))"),
            3 => {
                let domain = self.pick(&["s", "ks", "l", "e.keys"]);
                let body = self.with_local("Integer", |writer, _| writer.condition(depth - 1));
                let fold = self.pick(&["all", "any"]);
                format!("{fold}(v{} in {domain}: {body})", self.locals.len())
            }
            _ => format!("(if {a} then {b} else {})", self.condition(0)),
        }
    }

    fn guard(&mut self) -> String {
        let of = if self.one_in(6) { Some(self.instance()) } else { None };
        match of {
            // Asked together with the event.
            Some(of) => format!("{of} is {}", self.pick(&["open", "{open, shut}", "initialized"])),
            None => self.condition(2),
        }
    }

    /// An effect on one of the fields that have none yet.
    fn effect(&mut self, fields: &mut Vec<&'static str>) -> String {
        let field = fields.remove(self.chance.below(fields.len()));
        let (integer, fixed) = (self.integer(1), self.fixed());
        match field {
            "n" | "q" => match self.chance.below(6) {
                0 => format!("this.{field} = {integer}"),
                1 => format!("this.{field} -= {integer}"),
                2 => format!("this.{field} = {fixed} + {field}"),
                3 => format!("this.{field} = {fixed}"),
                _ => format!("this.{field} += {fixed}"),
            },
            "m" => format!(
                "this.m {}",
                self.pick(&["+= x", "-= x", "= m + x", "= x - m", "= x", "= EUR 1.00 + m", "+= m * q"])
            ),
            "d" => format!("this.d {}", self.pick(&["+= 0.50", "= 2.00 - d", "+= k", "= 1.00"])),
            "flag" => format!("this.flag = {}", self.condition(1)),
            "kind" => {
                format!("this.kind = {}", self.pick(&["Kind.gold", "(if kind == Kind.gold then Kind.plain else kind)"]))
            }
            "s" => match self.chance.below(8) {
                0..2 => format!("this.s += {fixed}"),
                2..4 => format!("this.s -= {fixed}"),
                4 => "this.s += ks".to_owned(),
                5 => "this.s = s - ks".to_owned(),
                6 => format!("this.s = s + {integer} + {fixed}"),
                _ => "this.s = ks".to_owned(),
            },
            "e" => match self.chance.below(8) {
                0..2 => format!("this.e[{fixed}] = {integer}"),
                2..4 => format!("this.e[{fixed}] += {}", self.fixed()),
                4 => format!("this.e -= {fixed}"),
                5 => format!("this.e[{integer}] = 1"),
                6 => format!("this.e[1] = {integer}, this.e[2] -= 1"),
                _ => "this.e = map(i in ks: i -> i)".to_owned(),
            },
            "l" => format!("this.l {}", self.pick(&["+= k", "+= [1, 2]", "= [k]", "= []"])),
            "o" => format!("this.o = {}", self.pick(&["none", "k", "(o ?? 0) + 1", "o"])),
            "r" => format!("this.r{}", self.pick(&[".x = k", ".y += 1", " = Rec(x: k, y: 0)", " = r with (x: n)"])),
            "until" => format!("this.until = {}", self.pick(&["none", "now + 1 hour", "until"])),
            "peer" => format!("this.peer = {}", self.instance()),
            _ => format!("this.peers {}", self.pick(&["+= p", "-= p", "= {p, peer}", "+= ps", "-= peer"])),
        }
    }

    /// A call of a later event, or that one is not possible.
    fn call(&mut self) -> Option<String> {
        if self.index + 1 == EVENTS {
            return None;
        }
        let event = self.index + 1 + self.chance.below(EVENTS - self.index - 1);
        let call = |writer: &mut Self, of: String, event: usize| {
            let (k, j) = (writer.integer(1), writer.fixed());
            let (p, ks) = (writer.instance(), writer.pick(&["ks", "s", "{k}", "{1, 2}"]));
            format!("{of}.E{event}({k}, {j}, x, {p}, {ks}, {})", writer.pick(&["ps", "peers", "{p}"]))
        };
        Some(match self.chance.below(6) {
            0 if !self.quiet.is_empty() => {
                let event = self.quiet[self.chance.below(self.quiet.len())];
                let of = self.instance();
                format!("not {}", call(self, of, event))
            }
            1 => call(self, "this".to_owned(), event),
            2 => {
                let domain = self.pick(&["peers", "ps", "{p, peer}", "(if flag then ps else peers)"]);
                self.with_local("T", |writer, name| {
                    format!("for {name} in {domain}: {}", call(writer, name.to_owned(), event))
                })
            }
            3 => {
                let condition = self.condition(1);
                let of = self.instance();
                format!("if {condition}: {}", call(self, of, event))
            }
            _ => {
                let of = self.instance();
                call(self, of, event)
            }
        })
    }
}

fn section(name: &str, items: &[String]) -> String {
    if items.is_empty() { String::new() } else { format!("      {name}: {}\n", items.join(", ")) }
}
