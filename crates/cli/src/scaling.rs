//! Which events of a specification may be in progress at one instance together, and why not, as tables and as JSON.

use std::fmt::Write;

use enact_rebel::footprint::Place;
use enact_rebel::scaling::{Because, Concurrency, Does, Pair, Precision, Profile, Reason, Scaling};
use enact_rebel::{Span, Spec};
use serde_json::{Value, json};

use crate::check::place;
use crate::lines::Lines;

/// Columns of a line at most, as far as names let it.
const WIDTH: usize = 100;

const LEGEND: &str = "\
rows are in progress, columns arrive:
  +  together                              l  in line without waiting if alone
  e  together unless the same element      w  take turns
  t  together while the threshold is far   -  never
";

/// The tables of all classes, in the order of the specification, and a summary.
pub(crate) fn tables(spec: &Spec, sources: &Lines) -> String {
    let mut text = LEGEND.to_owned();
    let (mut decided, mut pairs, mut serial, mut moving) = (0, 0, Vec::new(), Vec::new());
    for scaling in spec.scaling() {
        Table { sources, scaling: &scaling }.write(&mut text).expect("a text takes what is written");
        decided += scaling.decided();
        pairs += scaling.pairs().len();
        for profile in scaling.serial().map(|at| &scaling.events()[at]) {
            let events = if profile.moves { &mut moving } else { &mut serial };
            events.push(format!("{}.{}", scaling.class(), profile.event));
        }
    }
    text.push('\n');
    wrap(&mut text, "", &format!("in all, {}", share(decided, pairs)));
    for (first, events) in [("do not scale: ", serial), ("take turns, but lead to another state: ", moving)] {
        let events = if events.is_empty() { "none".to_owned() } else { events.join(", ") };
        wrap(&mut text, first, &events);
    }
    text.push('\n');
    text
}

struct Table<'a> {
    sources: &'a Lines,
    scaling: &'a Scaling,
}

impl Table<'_> {
    fn write(&self, text: &mut String) -> std::fmt::Result {
        let scaling = self.scaling;
        let (file, begin) = self.place_of_class();
        writeln!(text, "\n{}, {file}:{begin}: {}", scaling.class(), share(scaling.decided(), scaling.pairs().len()))?;
        if let Some(timer) = scaling.timer() {
            let line = self.line(timer);
            wrap(
                text,
                "  ",
                &format!(
                    "a timer (line {line}): an event that may change what is due, and any beside one, is judged by the outcomes \
                     of those in progress, 16 at most"
                ),
            );
        }
        self.matrix(text)?;
        self.profiles(text)?;
        self.reasons(text)?;
        self.helps(text);
        Ok(())
    }

    /// Who gets along with whom, in as many columns as fit.
    fn matrix(&self, text: &mut String) -> std::fmt::Result {
        let events = self.scaling.events();
        let name = events.iter().map(|profile| profile.event.chars().count()).max().unwrap_or_default();
        let number = events.len().to_string().len();
        let columns = (WIDTH.saturating_sub(name + number + 4) / (number + 1)).max(1);
        for first in (0..events.len()).step_by(columns) {
            let last = (first + columns).min(events.len());
            write!(text, "  {:1$}", "", number + name + 1)?;
            (first..last).try_for_each(|column| write!(text, " {:>number$}", column + 1))?;
            writeln!(text)?;
            for (row, profile) in events.iter().enumerate() {
                write!(text, "  {:>number$} {:name$}", row + 1, profile.event)?;
                let pairs = &self.scaling.pairs()[row * events.len()..][first..last];
                pairs.iter().try_for_each(|pair| write!(text, " {:>number$}", symbol(pair.concurrency)))?;
                writeln!(text)?;
            }
        }
        Ok(())
    }

    /// How admission knows each event, and whether it scales.
    fn profiles(&self, text: &mut String) -> std::fmt::Result {
        let events = self.scaling.events();
        let rows = events.iter().enumerate().map(|(at, profile)| {
            let own = &self.scaling.pairs()[at * events.len() + at];
            [profile.event.to_string(), self.precision(profile), with_itself(own.concurrency).to_owned()]
        });
        let rows: Vec<[String; 3]> =
            [["event", "known to admission", "with itself"].map(str::to_owned)].into_iter().chain(rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let (first, second) = (width(0), width(1));
        for [event, known, own] in &rows {
            writeln!(text, "  {event:first$}  {known:second$}  {own}")?;
        }
        for profile in events.iter().filter(|profile| !profile.asked.is_empty()) {
            let lines: Vec<String> = profile.asked.iter().map(|span| self.line(*span)).collect();
            let asked = format!(
                "whether {} is possible is asked ({}), which is judged by outcomes, and so is all beside it",
                profile.event,
                lines.join(", ")
            );
            wrap(text, "  ", &asked);
        }
        Ok(())
    }

    fn precision(&self, profile: &Profile) -> String {
        match profile.precision {
            Precision::Exact => match profile.sum {
                Some(sum) => format!("exact but for a sum of what it changes ({})", self.line(sum)),
                None => "exact".to_owned(),
            },
            Precision::Conservative(because, span) => {
                format!("conservative: {} ({})", because_of(because), self.line(span))
            }
            Precision::Opaque(because, span) => format!("opaque: {} ({})", because_of(because), self.line(span)),
        }
    }

    /// Why pairs wait, event by event as they arrive: one line for each place and what it does there.
    fn reasons(&self, text: &mut String) -> std::fmt::Result {
        let events = self.scaling.events();
        for (at, profile) in events.iter().enumerate() {
            let pairs: Vec<&Pair> = self.scaling.pairs().iter().filter(|pair| pair.incoming == at).collect();
            if pairs.iter().all(|pair| pair.reasons.is_empty()) {
                continue;
            }
            writeln!(text, "  {} arrives and", profile.event)?;
            let mut said: Vec<(&Reason, Vec<String>)> = Vec::new();
            for pair in pairs {
                for reason in weighty(pair) {
                    let open = format!("{} ({})", events[pair.open].event, self.line(reason.open_span));
                    match said.iter_mut().find(|(known, _)| is_alike(known, reason)) {
                        Some((_, opens)) if opens.contains(&open) => {}
                        Some((_, opens)) => opens.push(open),
                        None => said.push((reason, vec![open])),
                    }
                }
            }
            said.sort_by_key(|(reason, _)| std::cmp::Reverse(reason.concurrency));
            for (reason, opens) in said {
                let (mine, line) = (arriving(reason.incoming, &reason.place), self.line(reason.incoming_span));
                let theirs = by_the_open(reason.open);
                let equal = if reason.equal_together { "; not for equal values" } else { "" };
                let known = if reason.by_precision { "; not if it were exact" } else { "" };
                let words = format!("{mine} ({line}), {theirs} {}{equal}{known}", opens.join(", "));
                wrap(text, &format!("    {}  ", symbol(reason.concurrency)), &words);
            }
        }
        Ok(())
    }

    /// What the author could write instead.
    fn helps(&self, text: &mut String) {
        let mut said: Vec<(&'static str, Vec<String>)> = Vec::new();
        let reasons = self.scaling.pairs().iter().flat_map(|pair| weighty(pair).map(move |reason| (pair, reason)));
        for (pair, reason) in reasons {
            for (event, help) in self.help(pair, reason) {
                let name = event.to_owned();
                match said.iter_mut().find(|(known, _)| *known == help) {
                    Some((_, events)) if events.contains(&name) => {}
                    Some((_, events)) => events.push(name),
                    None => said.push((help, vec![name])),
                }
            }
        }
        if !said.is_empty() {
            text.push_str("  what would help\n");
        }
        for (help, events) in said {
            wrap(text, "    ", &format!("{}: {help}", events.join(", ")));
        }
    }

    /// What would help the one and the other event of a pair.
    fn help(&self, pair: &Pair, reason: &Reason) -> Vec<(&str, &'static str)> {
        let events = self.scaling.events();
        let sides = [(pair.open, reason.open), (pair.incoming, reason.incoming)];
        let helped = sides.into_iter().filter_map(|(at, does)| {
            let profile = &events[at];
            if profile.moves {
                return None;
            }
            help_for(does, reason, profile.precision).map(|help| (&*profile.event, help))
        });
        if reason.concurrency < Concurrency::InLine { Vec::new() } else { helped.collect() }
    }

    fn place_of_class(&self) -> (&str, usize) {
        let (file, begin, _) = self.sources.locate(self.scaling.span());
        (file, begin.line)
    }

    /// The line of `span`, with its file if that is another one than that of the class.
    fn line(&self, span: Span) -> String {
        let (file, begin, _) = self.sources.locate(span);
        let line =
            if file == self.place_of_class().0 { begin.line.to_string() } else { format!("{file}:{}", begin.line) };
        line.replace(char::is_control, "?")
    }
}

fn is_alike(one: &Reason, other: &Reason) -> bool {
    let key = |reason: &Reason| {
        (reason.concurrency, reason.open, reason.incoming, reason.equal_together, reason.by_precision)
    };
    key(one) == key(other) && one.place == other.place && one.incoming_span == other.incoming_span
}

fn share(decided: usize, pairs: usize) -> String {
    let percent = (decided * 100).checked_div(pairs).unwrap_or(100);
    format!("{decided} of {pairs} pairs ({percent} %) are decided without looking at values")
}

/// Writes `words` in lines that begin with `first`, or as deep.
fn wrap(text: &mut String, first: &str, words: &str) {
    let deep = " ".repeat(first.chars().count());
    let (mut line, mut is_empty) = (first.to_owned(), true);
    for word in words.replace(char::is_control, "?").split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            (line, is_empty) = (deep.clone(), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

fn symbol(concurrency: Concurrency) -> char {
    match concurrency {
        Concurrency::Never => '-',
        Concurrency::Together => '+',
        Concurrency::UnlessSame => 'e',
        Concurrency::WhileFar => 't',
        Concurrency::InLine => 'l',
        Concurrency::Turns => 'w',
    }
}

fn with_itself(concurrency: Concurrency) -> &'static str {
    match concurrency {
        Concurrency::Never => "never",
        Concurrency::Together => "together",
        Concurrency::UnlessSame => "together unless the same element",
        Concurrency::WhileFar => "together while the threshold is far",
        Concurrency::InLine => "in line if alone",
        Concurrency::Turns => "takes turns",
    }
}

fn because_of(because: Because) -> &'static str {
    match because {
        Because::Moves => "leads to another state",
        Because::Condition => "a condition that is no threshold",
        Because::Effect => "an effect that is no sum",
        Because::Variants => "variants",
        Because::Differs => "depends on the state",
        Because::Calls => "calls that depend on fields",
        Because::Returns => "a result that depends on fields",
        Because::Timer => "timer",
        _ => "more than admission knows",
    }
}

/// What an event does that arrives.
fn arriving(does: Does, place: &Place) -> String {
    match does {
        Does::Compares => format!("compares {place}"),
        Does::Needs => format!("needs {place}"),
        Does::Calls => format!("calls others by {place}"),
        Does::Returns => format!("returns what follows from {place}"),
        Does::Times => format!("has timers that follow from {place}"),
        Does::Uses => format!("makes another field of {place}"),
        Does::Adds => format!("adds to {place}"),
        Does::Inserts => format!("puts {place}"),
        Does::Removes => format!("takes out {place}"),
        Does::Assigns => format!("assigns {place}"),
        Does::AssignsArguments => format!("assigns {place} by arguments"),
        Does::Computes => format!("computes {place} of itself"),
        Does::ComputesOfOthers => format!("computes {place} of fields"),
        Does::Alters => format!("changes {place} as a whole"),
        Does::Moves => "leads to another state".to_owned(),
        Does::Stays => "keeps its state".to_owned(),
        _ => format!("touches {place}"),
    }
}

/// What becomes of the same place by those that are in progress.
fn by_the_open(does: Does) -> &'static str {
    match does {
        Does::Compares => "compared by",
        Does::Needs => "needed by",
        Does::Calls => "read for calls by",
        Does::Returns => "returned by",
        Does::Times => "read for timers by",
        Does::Uses => "used by",
        Does::Adds => "added to by",
        Does::Inserts => "put in by",
        Does::Removes => "taken out by",
        Does::Assigns => "assigned by",
        Does::AssignsArguments => "assigned by arguments by",
        Does::Computes => "computed of itself by",
        Does::ComputesOfOthers => "computed of fields by",
        Does::Alters => "changed as a whole by",
        Does::Moves => "left by",
        Does::Stays => "relied on by",
        _ => "touched by",
    }
}

/// The reasons that make a pair what it is. One that stands in line if alone may have to wait by lighter ones.
fn weighty(pair: &Pair) -> impl Iterator<Item = &Reason> {
    let depends = |does| matches!(does, Does::Compares | Does::Needs | Does::Calls | Does::Returns | Does::Times);
    pair.reasons.iter().filter(move |reason| {
        let is_lighter = pair.concurrency == Concurrency::InLine && depends(reason.incoming);
        reason.concurrency == pair.concurrency || is_lighter
    })
}

/// What the author of an event could write instead, if anything helps.
fn help_for(does: Does, reason: &Reason, precision: Precision) -> Option<&'static str> {
    let is_no_threshold = matches!(precision, Precision::Conservative(Because::Condition, _));
    Some(match does {
        Does::AssignsArguments => {
            "what is assigned by arguments takes turns; a number that counts is added to with += and -="
        }
        Does::Computes | Does::ComputesOfOthers => {
            "only `this.f += e`, where e reads no field, is an addition; f == f + e is read as one too"
        }
        Does::Alters => {
            "a map, a list or a record is one place; single elements of a set, and objects of a class of their own, are apart"
        }
        Does::Compares if matches!(reason.place, Place::Size(_) | Place::Element(..)) => {
            "the size of a set reads all of it; a number beside it, kept with += and -=, does not"
        }
        Does::Needs if is_no_threshold => {
            "comparisons of sums, joined by `and`, are thresholds; `or`, `if`, `!=`, products and aggregates are not"
        }
        Does::Calls => "what is called by arguments alone does not wait",
        Does::Returns => "a result that follows from the arguments alone does not wait",
        _ => return None,
    })
}

/// The same for programs.
pub(crate) fn document(spec: &Spec, sources: &Lines) -> Value {
    let place = |span: Span| place(span, sources.locate(span));
    let described = |scaling: Scaling| {
        let table = Table { sources, scaling: &scaling };
        let reason = |pair: &Pair, reason: &Reason| {
            let help: Vec<&str> = table.help(pair, reason).into_iter().map(|(_, help)| help).collect();
            json!({
                "concurrency": named(reason.concurrency),
                "place": reason.place.to_string(),
                "open": { "does": does(reason.open), "because": place(reason.open_span) },
                "incoming": { "does": does(reason.incoming), "because": place(reason.incoming_span) },
                "equalTogether": reason.equal_together,
                "byPrecision": reason.by_precision,
                "help": help,
            })
        };
        let event = |(at, profile): (usize, &Profile)| {
            let (known, because) = match profile.precision {
                Precision::Exact => ("exact", None),
                Precision::Conservative(because, span) => ("conservative", Some((because, span))),
                Precision::Opaque(because, span) => ("opaque", Some((because, span))),
            };
            let mut event = json!({
                "event": profile.event.as_ref(),
                "known": known,
                "scales": !scaling.serial().any(|serial| serial == at),
                "moves": profile.moves,
                "sum": profile.sum.map(place),
                "asked": profile.asked.iter().map(|span| place(*span)).collect::<Vec<_>>(),
            });
            if let Some((because, span)) = because {
                event["because"] = place(span);
                event["because"]["text"] = json!(because_of(because));
            }
            event
        };
        let pair = |pair: &Pair| {
            json!({
                "open": scaling.events()[pair.open].event.as_ref(),
                "incoming": scaling.events()[pair.incoming].event.as_ref(),
                "concurrency": named(pair.concurrency),
                "reasons": pair.reasons.iter().map(|found| reason(pair, found)).collect::<Vec<_>>(),
            })
        };
        json!({
            "class": scaling.class().as_ref(),
            "timer": scaling.timer().map(place),
            "events": scaling.events().iter().enumerate().map(event).collect::<Vec<_>>(),
            "pairs": scaling.pairs().iter().map(pair).collect::<Vec<_>>(),
            "decided": scaling.decided(),
        })
    };
    spec.scaling().map(described).collect()
}

fn named(concurrency: Concurrency) -> &'static str {
    match concurrency {
        Concurrency::Never => "never",
        Concurrency::Together => "together",
        Concurrency::UnlessSame => "unless-same",
        Concurrency::WhileFar => "while-far",
        Concurrency::InLine => "in-line",
        Concurrency::Turns => "turns",
    }
}

fn does(does: Does) -> &'static str {
    match does {
        Does::Compares => "compares",
        Does::Needs => "needs",
        Does::Calls => "calls",
        Does::Returns => "returns",
        Does::Times => "times",
        Does::Uses => "uses",
        Does::Adds => "adds",
        Does::Inserts => "inserts",
        Does::Removes => "removes",
        Does::Assigns => "assigns",
        Does::AssignsArguments => "assigns-arguments",
        Does::Computes => "computes",
        Does::ComputesOfOthers => "computes-of-others",
        Does::Alters => "alters",
        Does::Moves => "moves",
        Does::Stays => "stays",
        _ => "touches",
    }
}
