//! A byte trie over a small set of strings.

/// Finds which of a set of strings begin at a place of a text.
#[derive(Clone, Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Sorted by byte.
    edges: Vec<(u8, usize)>,
    /// The string that ends here.
    entry: Option<usize>,
}

impl Trie {
    /// A trie over `strings`; entries are named by their position.
    pub(crate) fn new<S: IntoIterator<Item = u8>>(strings: impl IntoIterator<Item = S>) -> Trie {
        let mut trie = Trie { nodes: vec![Node::default()] };
        for (entry, string) in strings.into_iter().enumerate() {
            let mut at = 0;
            for byte in string {
                at = trie.child_or_insert(at, byte);
            }
            if let Some(node) = trie.nodes.get_mut(at) {
                node.entry.get_or_insert(entry);
            }
        }
        trie
    }

    fn child_or_insert(&mut self, at: usize, byte: u8) -> usize {
        let next = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else { return at };
        match node.edges.binary_search_by_key(&byte, |&(edge, _)| edge) {
            Ok(edge) => node.edges.get(edge).map_or(at, |&(_, child)| child),
            Err(edge) => {
                node.edges.insert(edge, (byte, next));
                self.nodes.push(Node::default());
                next
            }
        }
    }

    fn child(&self, at: usize, byte: u8) -> Option<usize> {
        let edges = &self.nodes.get(at)?.edges;
        let edge = edges.binary_search_by_key(&byte, |&(edge, _)| edge).ok()?;
        edges.get(edge).map(|&(_, child)| child)
    }

    /// The strings that are a prefix of `text`, shortest first.
    pub(crate) fn prefixes_of(&self, text: impl IntoIterator<Item = u8>) -> impl Iterator<Item = usize> {
        let mut at = Some(0);
        text.into_iter()
            .map_while(move |byte| {
                at = self.child(at?, byte);
                at
            })
            .filter_map(|node| self.nodes.get(node)?.entry)
    }

    /// Whether some string begins with `text` and is longer.
    pub(crate) fn continues(&self, text: impl IntoIterator<Item = u8>) -> bool {
        let end = text.into_iter().try_fold(0, |at, byte| self.child(at, byte));
        end.and_then(|node| self.nodes.get(node)).is_some_and(|node| !node.edges.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_prefixes() {
        let trie = Trie::new(["<s>", "<", "<sx", ""].map(str::bytes));
        assert_eq!(trie.prefixes_of("<s>x".bytes()).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(trie.prefixes_of("s>".bytes()).count(), 0);
        assert!(trie.continues("<s".bytes()));
        assert!(!trie.continues("<s>".bytes()));
        assert!(!trie.continues("<s>x".bytes()));
    }
}
