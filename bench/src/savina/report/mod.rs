//! What was measured, as pages for people: the page of HTML and the text and tables of it as Markdown.
//!
//! # Direction
//! Every ratio is Enact's rate divided by the other's, round by round: above 1 Enact is faster. A difference is claimed
//! only if the 95 % interval of the ratio excludes 1.
//!
//! # Parts
//! [`figures`] draws, [`tables`] has every number, [`reasons`] what is known about why. The rest is here.
mod figures;
mod reasons;
mod tables;

use super::results::{BenchmarkResult, Results, is_ours};
use crate::document::{Block, Document, Mark, Section};
use crate::measure::{Comparison, Estimate, Series, in_short, median};

/// A result with what tables call it, and what its samples say, which takes time to find out.
struct Row<'a> {
    /// Which of several results it is from.
    measurement: usize,
    label: String,
    result: &'a BenchmarkResult,
    /// Of each contender, in the order of the race.
    entries: Vec<Entry<'a>>,
}

/// A contender in a result.
struct Entry<'a> {
    series: &'a Series,
    wall_s: Estimate,
    rate: Estimate,
    /// Ours against it; none if it is ours, or ours has no result.
    ratio: Option<Comparison>,
    disturbed: usize,
}

impl<'a> Row<'a> {
    fn of(measurement: usize, label: String, result: &'a BenchmarkResult) -> Self {
        let ours = result.ours();
        let entry = |(place, series): (usize, &'a Series)| Entry {
            series,
            wall_s: series.wall_s(),
            rate: series.rate(),
            ratio: ours.filter(|&ours| ours != place).map(|ours| result.race.compare_to(ours, place)),
            disturbed: result.race.disturbed(place),
        };
        Self { measurement, label, result, entries: result.race.series.iter().enumerate().map(entry).collect() }
    }

    fn entry(&self, name: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.series.name == name)
    }

    fn ours(&self) -> Option<&Entry<'a>> {
        self.entry(&self.result.compared)
    }

    fn peers(&self) -> impl Iterator<Item = &Entry<'a>> {
        self.entries.iter().filter(|entry| !is_ours(&entry.series.name))
    }

    /// The peer with the highest median rate.
    fn best_peer(&self) -> Option<&Entry<'a>> {
        self.peers().max_by(|a, b| a.rate.median.total_cmp(&b.rate.median))
    }

    /// Ours against the best peer.
    fn ratio_to_best(&self) -> Option<Comparison> {
        self.best_peer()?.ratio
    }
}

/// Of several measurements each has a number.
fn rows(results: &[Results]) -> Vec<Row<'_>> {
    let numbered =
        results.iter().enumerate().flat_map(|(number, one)| one.benchmarks.iter().map(move |result| (number, result)));
    let label = |number: usize, result: &BenchmarkResult| {
        let workload = &result.race.workload;
        if results.len() > 1 { format!("{workload} #{}", number + 1) } else { workload.clone() }
    };
    numbered.map(|(number, result)| Row::of(number, label(number, result), result)).collect()
}

/// Everything about `results`; of several, each is compared only with itself.
pub(crate) fn document(results: &[Results]) -> Document {
    let rows = rows(results);
    let mut sections = Vec::new();
    let mut section = |id, heading: &str, blocks: Vec<Block>| {
        if !blocks.is_empty() {
            sections.push(Section { id, heading: heading.to_owned(), blocks });
        }
    };
    section("overview", "Overview", overview(&rows));
    section("benchmarks", "Benchmark by benchmark", benchmarks(&rows));
    section("scaling", "More workers", scaling(&rows));
    section("times", "Times and rates", vec![Block::Table(tables::times(&rows))]);
    section("memory", "Memory", memory(&rows));
    section("cold-start", "Cold start", cold_start(results));
    section("missing", "Without a result", missing(results));
    section("method", "How it was measured", method(results, &rows));
    let title = "Enact and the Savina actor benchmarks".to_owned();
    Document { title, summary: summary(results, &rows), highlights: highlights(&rows), sections }
}

/// Ahead, behind, and not to be told apart, each against the best peer.
fn tally(rows: &[Row<'_>]) -> [usize; 3] {
    let verdicts: Vec<_> = rows.iter().filter_map(Row::ratio_to_best).map(|ratio| Mark::of(&ratio)).collect();
    [Mark::Ahead, Mark::Behind, Mark::Open].map(|mark| verdicts.iter().filter(|&&other| other == mark).count())
}

fn highlights(rows: &[Row<'_>]) -> Vec<(String, String, Mark)> {
    let [ahead, behind, open] = tally(rows);
    if ahead + behind + open == 0 {
        return Vec::new();
    }
    let ratios: Vec<_> = rows.iter().filter_map(Row::ratio_to_best).map(|ratio| ratio.speed_up).collect();
    vec![
        (in_short(median(&ratios)), "median ratio to the best other library".to_owned(), Mark::None),
        (ahead.to_string(), "ahead of the best".to_owned(), Mark::Ahead),
        (behind.to_string(), "behind the best".to_owned(), Mark::Behind),
        (open.to_string(), "not to be told apart".to_owned(), Mark::Open),
    ]
}

fn summary(results: &[Results], rows: &[Row<'_>]) -> Vec<String> {
    let mut sentences = vec![what_was_run(results, rows), who_is_faster(rows), what_it_costs(results, rows)];
    if results.iter().any(|one| one.machine.debug_build) {
        sentences.push("Enact was built without optimisation: these figures mean nothing.".to_owned());
    }
    sentences
}

fn what_was_run(results: &[Results], rows: &[Row<'_>]) -> String {
    let mut benchmarks: Vec<_> = rows.iter().map(|row| &row.result.benchmark).collect();
    benchmarks.sort();
    benchmarks.dedup();
    let mut libraries: Vec<_> = results.iter().flat_map(|one| &one.libraries).map(|library| &library.name).collect();
    libraries.sort();
    libraries.dedup();
    let beside = match libraries.len() {
        0 => "on its own".to_owned(),
        1 => "beside one other contender".to_owned(),
        others => format!("beside {others} other contenders"),
    };
    let (samples, _) = tables::samples(rows);
    let machines: Vec<_> = results.iter().map(|one| one.machine.in_short()).collect();
    let versions: Vec<_> = results.iter().map(|one| one.machine.version.as_str()).collect();
    let (machines, versions) = (each_once(machines), each_once(versions));
    format!(
        "Enact {versions} ran {} of the {} programs of the Savina suite {beside}, on {machines}: {samples} verified runs \
         in interleaved rounds.",
        benchmarks.len(),
        super::suite().len(),
    )
}

fn each_once<T: AsRef<str>>(texts: Vec<T>) -> String {
    let mut different: Vec<String> = Vec::new();
    for text in texts {
        if !different.iter().any(|other| other == text.as_ref()) {
            different.push(text.as_ref().to_owned());
        }
    }
    different.join(" and ")
}

fn who_is_faster(rows: &[Row<'_>]) -> String {
    let ratio = |row: &Row<'_>| row.ratio_to_best().map(|ratio| (ratio.speed_up, row.label.clone()));
    let mut ratios: Vec<_> = rows.iter().filter_map(ratio).collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [ahead, behind, open] = tally(rows);
    match &ratios[..] {
        [] => "No other library took part in what was run, so nothing is said about which is faster.".to_owned(),
        [(only, name)] => {
            format!("In {name}, its message rate is {} times that of the best other library.", in_short(*only))
        }
        [(lowest, slowest), .., (highest, fastest)] => format!(
            "Against the best other library in each of {} comparisons it is ahead in {ahead}, behind in {behind}, and \
             cannot be told apart in {open}; its message rate is {} times ({slowest}) to {} times ({fastest}) theirs, \
             {} times in the median.",
            ratios.len(),
            in_short(*lowest),
            in_short(*highest),
            in_short(median(&ratios.iter().map(|(ratio, _)| *ratio).collect::<Vec<_>>())),
        ),
    }
}

fn what_it_costs(results: &[Results], rows: &[Row<'_>]) -> String {
    let heap: Vec<_> = rows.iter().filter_map(|row| row.result.heap.get(&row.result.compared)).collect();
    let counts: Vec<_> = heap.iter().map(|heap| heap.count_per_message()).collect();
    let ours = |results: &Results| {
        let race = results.cold_start.as_ref()?;
        race.series.iter().find(|series| is_ours(&series.name)).map(|series| series.wall_s().median * 1e3)
    };
    let starts: Vec<_> = results.iter().filter_map(ours).collect();
    let mut parts = Vec::new();
    if !counts.is_empty() {
        parts.push(format!("heap allocations a message: {} in the median program", in_short(median(&counts))));
    }
    if !starts.is_empty() {
        parts.push(format!("a new process has its first result after {} ms", in_short(median(&starts))));
    }
    let (samples, disturbed) = tables::samples(rows);
    parts.push(format!(
        "of the {samples} runs, {disturbed} are marked because other processes used more than a tenth of the machine"
    ));
    let sentence = parts.join("; ");
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).chain(['.']).collect())
}

fn overview(rows: &[Row<'_>]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let figures = figures::against(rows);
    if !figures.is_empty() {
        let text = "Each dot is the median over the rounds of Enact's message rate divided by the other library's in the same \
                    round, each bar its 95 % bootstrap interval. Right of 1 Enact is faster; where the bar crosses 1, \
                    neither is claimed to be.";
        blocks.push(Block::Prose(text.to_owned()));
        blocks.push(Block::Figures(figures));
    }
    let tables = [tables::overview(rows), tables::ratios(rows), tables::reasons(rows)];
    blocks.extend(tables.into_iter().filter(|table| !table.is_empty()).map(Block::Table));
    blocks
}

/// A chart for each result, those of one benchmark together.
fn benchmarks(rows: &[Row<'_>]) -> Vec<Block> {
    let text = "Median message rate, longer is better, with 95 % bootstrap intervals of the medians. Absolute rates shift with \
                the machine's mood; the ratios above are taken within rounds.";
    let mut blocks = vec![Block::Prose(text.to_owned())];
    for together in rows.chunk_by(|a, b| a.result.benchmark == b.result.benchmark) {
        let result = together[0].result;
        let drawn: Vec<_> =
            together.iter().filter(|row| !row.result.race.series.is_empty()).map(figures::rates).collect();
        if drawn.is_empty() {
            continue;
        }
        blocks.push(Block::Heading(format!("{}: {}", result.benchmark, result.title)));
        let parameters = tables::parameters_in_words(result);
        let reason = reasons::of(&result.benchmark).map_or_else(String::new, |reason| format!(" {reason}."));
        blocks.push(Block::Prose(format!("Parameters: {parameters}.{reason}")));
        blocks.push(Block::Figures(drawn));
    }
    if blocks.len() > 1 { blocks } else { Vec::new() }
}

/// Benchmarks that differ in nothing but their workers, by their number.
fn by_workers<'a>(rows: &'a [Row<'a>]) -> Vec<Vec<&'a Row<'a>>> {
    let mut groups: Vec<Vec<&Row<'_>>> = Vec::new();
    for row in rows {
        let of = |row: &Row<'a>| (row.measurement, row.result.benchmark.as_str(), row.result.scale);
        match groups.iter_mut().find(|group| of(group[0]) == of(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.iter_mut().for_each(|group| group.sort_by_key(|row| row.result.workers));
    groups.retain(|group| group.len() > 1);
    groups
}

fn scaling(rows: &[Row<'_>]) -> Vec<Block> {
    let groups = by_workers(rows);
    if groups.is_empty() {
        return Vec::new();
    }
    let drawn = groups.iter().enumerate().map(|(number, group)| figures::scaling(group, number)).collect();
    let text =
        "Median message rate by the number of worker threads; numbers of workers were not interleaved with each other.";
    vec![Block::Prose(text.to_owned()), Block::Figures(drawn), Block::Table(tables::scaling(&groups))]
}

fn memory(rows: &[Row<'_>]) -> Vec<Block> {
    let peak = tables::peak_memory(rows);
    let allocations = tables::allocations(rows);
    let mut blocks = Vec::new();
    if !peak.is_empty() {
        let text = "Every contender runs each benchmark in a process of its own; the peak is that of one run, after the \
                    system was told to forget earlier ones.";
        blocks.extend([Block::Prose(text.to_owned()), Block::Table(peak)]);
    }
    if !allocations.is_empty() {
        let text = "Allocations of Enact's programs are counted in a run of their own, which is not timed, after one that \
                    warmed it up. They include what the programs themselves allocate for their work.";
        blocks.extend([Block::Prose(text.to_owned()), Block::Table(allocations)]);
    }
    blocks
}

fn cold_start(results: &[Results]) -> Vec<Block> {
    let table = tables::cold_start(results);
    if table.is_empty() {
        return Vec::new();
    }
    let text = "From before the process exists to the first verified result of a ping pong of ten pings, in a fresh process \
                each time. The Java virtual machine's start is part of it, as is the start of everybody's runtime.";
    vec![Block::Prose(text.to_owned()), Block::Table(table)]
}

fn missing(results: &[Results]) -> Vec<Block> {
    let failed = results.iter().flat_map(|one| &one.dropouts).map(|dropout| format!("Failed: {dropout}"));
    let absent = results.iter().flat_map(|one| &one.absent).map(|absent| format!("Not built: {absent}"));
    let fixed = results.iter().flat_map(|one| &one.without_sizes);
    let fixed = fixed.map(|name| format!("{name} in other sizes: no parameter makes it longer and nothing else"));
    let items: Vec<_> = failed.chain(absent).chain(fixed).collect();
    if items.is_empty() { Vec::new() } else { vec![Block::List(items)] }
}

fn method(results: &[Results], rows: &[Row<'_>]) -> Vec<Block> {
    let points = [
        "A round runs every contender once, in an order that changes from round to round. Ratios are taken within a round, so \
         that what disturbs the machine hits both; figures of different measurements are never compared.",
        "Every run is verified by an oracle after its clock has stopped. A program that gives a wrong result, breaks off or takes too \
         long has none and is listed.",
        "All programs do the same work: the same messages, generators and kernels, on the same number of worker threads.",
        "Intervals are 95 % percentile-bootstrap intervals of the median, 10,000 resamples; fewer than five rounds have none.",
        "A run is marked as disturbed if other processes, time stolen by the host included, used more than 10 % of the machine \
         meanwhile; it is kept.",
        "The Java virtual machine runs until two medians of five runs differ by less than a tenth before its first round.",
    ];
    let mut blocks = vec![Block::List(points.map(str::to_owned).to_vec())];
    for (number, one) in results.iter().enumerate() {
        if results.len() > 1 {
            blocks.push(Block::Heading(format!("Measurement #{}", number + 1)));
        }
        blocks.push(Block::Command(one.command.clone()));
        blocks.push(Block::Facts(tables::machine(one)));
    }
    blocks.push(Block::Table(tables::parameters(rows)));
    blocks
}

#[cfg(test)]
mod tests;
