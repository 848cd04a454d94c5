//! What a power cut keeps.

/// Decides what a power cut keeps.
pub(super) trait Fate {
    /// Whether the next piece or change of a name survives.
    fn keeps(&mut self) -> bool;

    /// How many bytes of a surviving sector of `len` bytes do.
    fn tears(&mut self, len: usize) -> usize;

    /// The size of a file whose synced part has `synced` bytes and whose surviving pieces make it `size`.
    fn cuts(&mut self, synced: usize, size: usize) -> usize;
}

/// `SplitMix64`: enough for choices, and the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Keeps pieces with a chance that is itself random, so that all, none and few are as likely as half.
pub(super) struct RandomFate<'a> {
    random: &'a mut Random,
    kept_of_four: u64,
}

impl<'a> RandomFate<'a> {
    pub(super) fn new(random: &'a mut Random) -> Self {
        let kept_of_four = random.below(5);
        Self { random, kept_of_four }
    }
}

impl Fate for RandomFate<'_> {
    fn keeps(&mut self) -> bool {
        self.random.below(4) < self.kept_of_four
    }

    fn tears(&mut self, len: usize) -> usize {
        if self.random.below(16) == 0 { self.random.below(len as u64) as usize } else { len }
    }

    fn cuts(&mut self, synced: usize, size: usize) -> usize {
        match size.checked_sub(synced) {
            Some(unsynced) if self.random.below(4) == 0 => synced + self.random.below(unsynced as u64 + 1) as usize,
            _ => size,
        }
    }
}

/// Keeps whole pieces as a test says.
pub(super) struct ChosenFate<F> {
    keeps: F,
    next: usize,
}

impl<F> ChosenFate<F> {
    pub(super) fn new(keeps: F) -> Self {
        Self { keeps, next: 0 }
    }
}

impl<F: FnMut(usize) -> bool> Fate for ChosenFate<F> {
    fn keeps(&mut self) -> bool {
        self.next += 1;
        (self.keeps)(self.next - 1)
    }

    fn tears(&mut self, len: usize) -> usize {
        len
    }

    fn cuts(&mut self, _synced: usize, size: usize) -> usize {
        size
    }
}
