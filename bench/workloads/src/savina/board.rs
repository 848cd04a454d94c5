//! The board of n queens.

/// The column of the queen in each row, as far as they are placed.
pub type Board = Vec<u8>;

/// Whether a queen in `column` of the next row is safe.
#[must_use]
pub fn is_safe(board: &[u8], column: u8) -> bool {
    let row = board.len();
    board
        .iter()
        .enumerate()
        .all(|(above, &other)| other != column && usize::from(other.abs_diff(column)) != row - above)
}

/// Gives all solutions for so many `queens` that begin with `board` to `take`; leaves the board as it was.
pub fn search(board: &mut Board, queens: usize, take: &mut impl FnMut(&[u8])) {
    if board.len() == queens {
        take(board);
        return;
    }
    for column in 0..queens as u8 {
        if is_safe(board, column) {
            board.push(column);
            search(board, queens, take);
            board.pop();
        }
    }
}
