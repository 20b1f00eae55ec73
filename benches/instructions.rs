//! The hot kernels on made inputs, for `python -m benches.instructions`, which counts their instructions: times tell a
//! slow change from a busy machine only when they are far apart.

use std::hint::black_box;
use std::sync::Arc;

use holdall::chat::Json;
use holdall::knapsack::Candidate;
use holdall::msgpack::encode;
use holdall::tokens::{Counter, encoding};
use holdall::tools::{Tool, ToolSet};
use serde_json::json;

/// A fixed sequence of draws (the multiplier and increment are Knuth's for MMIX).
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// One of the first much more often than one of the last.
    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let n = words.len() as u64;
        let at = self.below(n).min(self.below(n));
        words.get(at as usize).copied().unwrap_or_default()
    }
}

const WORDS: [&str; 40] = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "for",
    "it",
    "was",
    "on",
    "are",
    "with",
    "they",
    "be",
    "at",
    "have",
    "this",
    "from",
    "invoice",
    "deployment",
    "table",
    "latency",
    "worker",
    "migration",
    "schema",
    "customer",
    "don't",
    "rollback",
    "Kubernetes",
    "PostgreSQL",
    "HTTPServer",
    "2,048",
    "tokenization",
    "résumé",
    "naïve",
    "Straße",
    "counterrevolutionary",
    "xylophonist",
    "qzvtk",
];
const LINES: [&str; 12] = [
    "def load(self, path: str) -> dict[str, Any]:",
    "    if not path.endswith(\".json\"):",
    "        raise ValueError(f\"cannot read {path!r}\")",
    "    for key, value in sorted(data.items(), key=lambda pair: pair[0]):",
    "        self._cache[key] = value  # kept until `clear`",
    "    return {**self.defaults, **data}",
    "",
    "class HTTPRequestHandler(BaseHandler):",
    "    MAX_RETRIES = 3",
    "    async with self.pool.acquire() as connection:",
    "        rows = await connection.fetch(\"SELECT id, body FROM log WHERE seq > $1\", last)",
    "# ------------------------------------------------------------------",
];

fn prose() -> String {
    let mut draws = Draws(7);
    let mut text = String::new();
    for n in 0..20_000 {
        text.push_str(if n % 13 == 0 { "The" } else { draws.of(&WORDS) });
        text.push_str(if n % 13 < 12 {
            " "
        } else if n % 5 == 0 {
            ".\n\n"
        } else {
            ". "
        });
    }
    text
}

fn code() -> String {
    let mut draws = Draws(8);
    let lines: Vec<&str> = (0..2_500).map(|_| draws.of(&LINES)).collect();
    lines.join("\n")
}

fn letters() -> String {
    let mut draws = Draws(9);
    (0..100_000).map(|_| char::from(b'a' + draws.below(26) as u8)).collect()
}

fn choices() -> Vec<Vec<Candidate>> {
    let mut draws = Draws(10);
    let message = |_| {
        let (weight, value) = (20 + draws.below(2_000), 1_000 + draws.below(1_000_000));
        [(1, 1), (3, 2), (10, 4)]
            .map(|(part, less)| Candidate { weight: weight / part + 1, value: value / less })
            .to_vec()
    };
    (0..1_000).map(message).collect()
}

fn tools() -> ToolSet {
    let mut draws = Draws(11);
    let tool = |n| {
        let text: Vec<&str> = (0..30).map(|_| draws.of(&WORDS)).collect();
        let text = text.join(" ");
        let property = json!({"type": "string", "description": text});
        let parameters = json!({"type": "object", "properties": {"path": property, "limit": {"type": "integer"}}, "required": ["path"]});
        let value = json!({"type": "function", "function": {"name": format!("tool_{n}"), "description": text, "parameters": parameters}});
        let Ok(tool) = Tool::read(&Json::Value(&value), n) else { panic!("tool {n} is one") };
        Arc::new(tool)
    };
    ToolSet::new((0..200).map(tool).collect())
}

fn documents() -> Vec<String> {
    let text = prose();
    text.split("\n\n").map(str::to_owned).collect()
}

/// Messages as maps; the format has no string so long that this fails.
fn written(texts: &[String]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    encode::array(&mut out, texts.len()).ok()?;
    for (n, text) in texts.iter().enumerate() {
        encode::map(&mut out, 3).ok()?;
        encode::str(&mut out, b"role").ok()?;
        encode::str(&mut out, b"assistant").ok()?;
        encode::str(&mut out, b"content").ok()?;
        encode::str(&mut out, text.as_bytes()).ok()?;
        encode::str(&mut out, b"at").ok()?;
        encode::uint(&mut out, n as u64 * 1_000);
    }
    Some(out)
}

fn counter(name: &str) -> Arc<dyn Counter> {
    let Ok(counter) = encoding(name) else { panic!("{name} is embedded") };
    counter
}

/// What is counted: each is a function by itself, never inlined, called twice, first with cold caches.
mod kernels {
    use std::hint::black_box;

    use holdall::knapsack::{Candidate, Limits, choose, greedy, zero_one};
    use holdall::msgpack::decode::Reader;
    use holdall::tokens::Counter;
    use holdall::tools::{Costs, ToolSet, Wish, fit};

    macro_rules! counting {
        ($($name:ident),*) => {
            $(
                #[inline(never)]
                pub fn $name(counter: &dyn Counter, texts: &[&str]) {
                    // What makes it another function than its like, which the compiler would make one.
                    black_box(stringify!($name));
                    for text in texts {
                        black_box(counter.count(text).ok());
                    }
                }
            )*
        };
    }

    counting!(count_prose_o200k, count_code_o200k, count_messages_o200k, count_one_piece_o200k);
    counting!(count_prose_cl100k, count_code_cl100k, count_messages_cl100k, count_one_piece_cl100k);

    #[inline(never)]
    pub fn cut_prose_o200k(counter: &dyn Counter, text: &str) {
        black_box(counter.cut(text, 10_000).ok());
    }

    #[inline(never)]
    pub fn choose_greedily(items: &[Candidate]) {
        black_box(greedy(items, 200_000));
    }

    #[inline(never)]
    pub fn choose_exactly(items: &[Candidate]) {
        black_box(zero_one(items, 200_000, Limits::default()).ok());
    }

    #[inline(never)]
    pub fn choose_renditions(items: &[Vec<Candidate>]) {
        black_box(choose(items, 200_000, Limits::default()).ok());
    }

    #[inline(never)]
    pub fn fit_tools(tools: &ToolSet, counter: &dyn Counter) {
        black_box(fit(tools, 4_000, Wish::default(), counter, &Costs::default()).ok());
    }

    #[inline(never)]
    pub fn msgpack_write(texts: &[String]) {
        black_box(super::written(texts));
    }

    #[inline(never)]
    pub fn msgpack_read(data: &[u8]) {
        let mut reader = Reader::new(data, 0);
        while reader.left() > 0 && black_box(reader.token()).is_ok() {}
    }
}

fn main() {
    let (prose, code, letters) = (prose(), code(), letters());
    let messages: Vec<&str> = prose.split_inclusive("\n\n").flat_map(|part| part.split_inclusive(". ")).collect();
    let o200k = counter("o200k_base");
    let cl100k = counter("cl100k_base");
    let renditions = choices();
    let items: Vec<Candidate> = renditions.iter().filter_map(|choice| choice.first().copied()).collect();
    let texts = documents();
    let data = black_box(written(&texts)).unwrap_or_default();
    for _ in 0..2 {
        kernels::count_prose_o200k(&*o200k, &[&prose]);
        kernels::count_code_o200k(&*o200k, &[&code]);
        kernels::count_messages_o200k(&*o200k, &messages);
        kernels::count_one_piece_o200k(&*o200k, &[&letters]);
        kernels::count_prose_cl100k(&*cl100k, &[&prose]);
        kernels::count_code_cl100k(&*cl100k, &[&code]);
        kernels::count_messages_cl100k(&*cl100k, &messages);
        kernels::count_one_piece_cl100k(&*cl100k, &[&letters]);
        kernels::cut_prose_o200k(&*o200k, &prose);
        kernels::choose_greedily(&items);
        kernels::choose_exactly(&items);
        kernels::choose_renditions(&renditions);
        kernels::fit_tools(&tools(), &*o200k);
        kernels::msgpack_write(&texts);
        kernels::msgpack_read(&data);
    }
}
