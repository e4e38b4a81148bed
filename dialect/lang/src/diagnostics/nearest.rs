//! The known name that a misspelt one was meant to be.

/// The candidate nearest to `name` by edit distance, if it is near enough to be
/// meant: at most a third of the letters differ. Of equals the first.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        .map(|candidate| (distance(name, candidate, limit), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The edit distance with swaps of neighbours (optimal string alignment); more than
/// `limit` is only said to be so. Case differences are free.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let lower = |text: &str| text.chars().map(|c| c.to_ascii_lowercase()).collect::<Vec<_>>();
    let (a, b) = (lower(a), lower(b));
    if a.len().abs_diff(b.len()) > limit || a.len() > 64 {
        return limit + 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substituted = previous[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substituted.min(previous[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut previous, row);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_meant_name() {
        let names = ["TILE_M", "TILE_N", "rowmax", "rowsum", "exp"];
        assert_eq!(nearest("TILE_O", names), Some("TILE_M"));
        assert_eq!(nearest("rwomax", names), Some("rowmax"));
        assert_eq!(nearest("Exp", names), Some("exp"));
        assert_eq!(nearest("completely", names), None);
        assert_eq!(nearest("q", names), None);
    }
}
