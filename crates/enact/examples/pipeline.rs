//! A pipeline: each stage hands the duty to answer on, so that no stage waits and the client asks the first one only.

use enact::{Cx, Forward, Promise, System, actor};

/// Cleans a line up.
struct Trim {
    next: CountRef,
}

#[actor]
impl Trim {
    fn accept(&mut self, cx: &Cx<Self>, line: String) -> Forward<usize> {
        self.next.forward(cx).accept(line.trim().to_owned())
    }
}

/// Counts the words of a line, and of all lines so far.
struct Count {
    total: TotalRef,
}

#[actor]
impl Count {
    fn accept(&mut self, cx: &Cx<Self>, line: String) -> Forward<usize> {
        self.total.forward(cx).add(line.split_whitespace().count())
    }
}

#[derive(Default)]
struct Total {
    words: usize,
}

#[actor]
impl Total {
    fn add(&mut self, words: usize) -> usize {
        self.words += words;
        self.words
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let system = System::builder().build()?;
    let total = system.spawn(Total::default());
    let count = system.spawn(Count { total });
    let first = system.spawn(Trim { next: count });

    // Messages from one sender arrive in order, also through all stages.
    let lines = ["  so much depends ", "upon", "", "a red wheel barrow"];
    let answers: Vec<_> = lines.into_iter().map(|line| first.accept(line.to_owned())).collect();
    let sums = answers.into_iter().map(Promise::wait).collect::<Result<Vec<_>, _>>()?;
    println!("{sums:?}");
    assert_eq!(sums, [3, 4, 4, 8]);
    Ok(())
}
