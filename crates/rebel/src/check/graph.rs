//! Orders what depends on each other.

/// The nodes in an order in which each comes after what it needs, or a circle of nodes that each need the next.
///
/// `needs[n]` are the nodes that node `n` needs.
pub(super) fn order(needs: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut waiting: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut needed_by = vec![Vec::new(); needs.len()];
    for (node, needs) in needs.iter().enumerate() {
        for &need in needs {
            needed_by[need].push(node);
        }
    }
    let mut order: Vec<usize> = (0..needs.len()).filter(|&node| waiting[node] == 0).collect();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for &user in &needed_by[node] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                order.push(user);
            }
        }
    }
    match (0..needs.len()).find(|&node| waiting[node] > 0) {
        None => Ok(order),
        Some(node) => Err(circle(needs, &waiting, node)),
    }
}

/// A circle among the nodes that still wait, found by following needs from `start`: each waits for one that waits.
fn circle(needs: &[Vec<usize>], waiting: &[usize], start: usize) -> Vec<usize> {
    let mut path = vec![start];
    loop {
        let node = path[path.len() - 1];
        let Some(&next) = needs[node].iter().find(|&&need| waiting[need] > 0) else {
            return path;
        };
        if let Some(position) = path.iter().position(|&seen| seen == next) {
            return path.split_off(position);
        }
        path.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_comes_first() {
        assert_eq!(order(&[vec![1, 2], vec![2], vec![]]), Ok(vec![2, 1, 0]));
        assert_eq!(order(&[]), Ok(vec![]));
    }

    #[test]
    fn a_circle_is_named_without_the_way_to_it() {
        assert_eq!(order(&[vec![1], vec![2], vec![1]]), Err(vec![1, 2]));
        assert_eq!(order(&[vec![0]]), Err(vec![0]));
    }
}
