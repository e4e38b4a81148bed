//! Instruction types and the modifiers of an opcode.

/// The type words of PTX instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Ty {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    U16x2,
    S16x2,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F32x2,
    F64,
    E4m3x2,
    E5m2x2,
    E2m3x2,
    E3m2x2,
    E2m1x2,
    Ue8m0x2,
}

impl Ty {
    /// The type of a modifier word, if it is one.
    pub fn parse(word: &str) -> Option<Ty> {
        Some(match word {
            "pred" => Ty::Pred,
            "b8" => Ty::B8,
            "b16" => Ty::B16,
            "b32" => Ty::B32,
            "b64" => Ty::B64,
            "b128" => Ty::B128,
            "u8" => Ty::U8,
            "u16" => Ty::U16,
            "u32" => Ty::U32,
            "u64" => Ty::U64,
            "s8" => Ty::S8,
            "s16" => Ty::S16,
            "s32" => Ty::S32,
            "s64" => Ty::S64,
            "u16x2" => Ty::U16x2,
            "s16x2" => Ty::S16x2,
            "f16" => Ty::F16,
            "f16x2" => Ty::F16x2,
            "bf16" => Ty::Bf16,
            "bf16x2" => Ty::Bf16x2,
            "tf32" => Ty::Tf32,
            "f32" => Ty::F32,
            "f32x2" => Ty::F32x2,
            "f64" => Ty::F64,
            "e4m3x2" => Ty::E4m3x2,
            "e5m2x2" => Ty::E5m2x2,
            "e2m3x2" => Ty::E2m3x2,
            "e3m2x2" => Ty::E3m2x2,
            "e2m1x2" => Ty::E2m1x2,
            "ue8m0x2" => Ty::Ue8m0x2,
            _ => return None,
        })
    }

    /// Bytes in a register or in memory; a predicate counts one.
    pub fn bytes(self) -> u8 {
        match self {
            Ty::Pred | Ty::B8 | Ty::U8 | Ty::S8 | Ty::E2m1x2 => 1,
            Ty::B16
            | Ty::U16
            | Ty::S16
            | Ty::F16
            | Ty::Bf16
            | Ty::E4m3x2
            | Ty::E5m2x2
            | Ty::E2m3x2
            | Ty::E3m2x2
            | Ty::Ue8m0x2 => 2,
            Ty::B32
            | Ty::U32
            | Ty::S32
            | Ty::U16x2
            | Ty::S16x2
            | Ty::F16x2
            | Ty::Bf16x2
            | Ty::Tf32
            | Ty::F32 => 4,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 | Ty::F32x2 => 8,
            Ty::B128 => 16,
        }
    }

    /// Whether it is a signed integer.
    pub fn signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    /// Whether it is a floating-point type, packed ones included.
    pub fn float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::Tf32 | Ty::F32 | Ty::F32x2 | Ty::F64)
    }
}

/// The modifiers of an opcode, taken one by one: what nobody took is unknown.
pub struct Modifiers<'s> {
    /// Words that are not types, in order; taken ones are gone.
    words: Vec<&'s str>,
    /// The type words in order.
    types: Vec<(Ty, &'s str)>,
    /// How many of the types were asked for.
    read: usize,
}

impl<'s> Modifiers<'s> {
    /// Splits the modifiers of an opcode into words and types.
    pub fn new(modifiers: &[&'s str]) -> Self {
        let mut split = Modifiers { words: Vec::new(), types: Vec::new(), read: 0 };
        for word in modifiers {
            match Ty::parse(word) {
                Some(ty) => split.types.push((ty, word)),
                None => split.words.push(word),
            }
        }
        split
    }

    /// Takes `word` if it is there.
    pub fn take(&mut self, word: &str) -> bool {
        match self.words.iter().position(|w| *w == word) {
            Some(at) => {
                self.words.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes the first of `choices` that is there and gives its value.
    pub fn choose<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        choices.iter().find(|(word, _)| self.take(word)).map(|(_, value)| *value)
    }

    /// Takes every word that `known` accepts.
    pub fn drop_if(&mut self, known: impl Fn(&str) -> bool) {
        self.words.retain(|word| !known(word));
    }

    /// Takes the first word left.
    pub fn shift(&mut self) -> Option<&'s str> {
        if self.words.is_empty() { None } else { Some(self.words.remove(0)) }
    }

    /// The words and types that nobody took.
    pub fn rest(&self) -> impl Iterator<Item = &'s str> + '_ {
        let types = self.types.iter().skip(self.read).map(|(_, word)| *word);
        self.words.iter().copied().chain(types)
    }

    /// The first type.
    pub fn ty(&mut self) -> Option<Ty> {
        self.type_at(0)
    }

    /// The type at a position; it and those before it count as taken.
    pub fn type_at(&mut self, index: usize) -> Option<Ty> {
        let ty = self.types.get(index)?.0;
        self.read = self.read.max(index + 1);
        Some(ty)
    }

    /// All types, for instructions that read the whole list.
    pub fn all_types(&mut self) -> Vec<Ty> {
        self.read = self.types.len();
        self.types.iter().map(|(ty, _)| *ty).collect()
    }

    /// The second type without taking it: what tells mixed forms from plain ones.
    pub fn peek_second(&self) -> Option<Ty> {
        self.types.get(1).map(|(ty, _)| *ty)
    }
}
