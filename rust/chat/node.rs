//! One view of JSON-like values, so that one parser reads `serde_json` values and Python objects alike.

use std::borrow::Cow;

use serde_json::Value;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// JSON null, Python's None.
    Null,
    /// true or false.
    Bool,
    /// An integer or a float.
    Number,
    /// Text; a lone surrogate of the caller reads as U+FFFD, as tiktoken counts it.
    Text,
    /// A list or a tuple.
    List,
    /// An object with named entries.
    Object,
    /// Nothing that JSON knows.
    Other,
}

impl Kind {
    /// The word for messages to people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::Text => "text",
            Self::List => "a list",
            Self::Object => "an object",
            Self::Other => "a value that JSON does not know",
        }
    }
}

macro_rules! keys {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// A key that the formats name. An enum, so that the Python side looks it up by an interned string.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each is the key it is named after")]
        pub enum Key { $($name),* }

        impl Key {
            /// Every key, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The key as it is written.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

keys! {
    ApprovalRequestId = "approval_request_id",
    Arguments = "arguments",
    Audio = "audio",
    AudioUrl = "audio_url",
    Base64 = "base64",
    CallId = "call_id",
    Content = "content",
    Context = "context",
    Custom = "custom",
    Data = "data",
    Description = "description",
    Detail = "detail",
    File = "file",
    FileData = "file_data",
    Format = "format",
    Function = "function",
    FunctionCall = "function_call",
    Id = "id",
    Image = "image",
    ImageUrl = "image_url",
    Input = "input",
    InputAudio = "input_audio",
    InputSchema = "input_schema",
    InputSchemaCamel = "inputSchema",
    InputVideo = "input_video",
    MediaType = "media_type",
    MimeType = "mime_type",
    MimeTypeCamel = "mimeType",
    Name = "name",
    Output = "output",
    Parameters = "parameters",
    Reasoning = "reasoning",
    ReasoningContent = "reasoning_content",
    Refusal = "refusal",
    Result = "result",
    Role = "role",
    Source = "source",
    Summary = "summary",
    Text = "text",
    Thinking = "thinking",
    Title = "title",
    ToolCallId = "tool_call_id",
    ToolCalls = "tool_calls",
    ToolUseId = "tool_use_id",
    Type = "type",
    Url = "url",
    Video = "video",
    VideoUrl = "video_url",
}

/// A JSON-like value. Cheap to clone.
pub trait Node: Clone {
    /// Whether two entries of an object may have the same text for a key.
    const MAY_REPEAT_KEYS: bool = true;

    /// What the value is.
    fn kind(&self) -> Kind;

    /// The text, if it is text.
    fn text(&self) -> Option<Cow<'_, str>>;

    /// A number or a boolean as JSON writes it.
    fn scalar(&self) -> Option<Cow<'_, str>>;

    /// The value at `key`, if this is an object that has it. Null counts as there.
    fn get(&self, key: Key) -> Option<Self>;

    /// The elements of a list, in order; nothing for any other kind.
    fn items(&self) -> impl Iterator<Item = Self>;

    /// The entries of an object, in order, keys as text nodes; nothing for any other kind.
    fn entries(&self) -> impl Iterator<Item = (Self, Self)>;

    /// A hash that is good within this process only, where one can be had without reading the texts.
    ///
    /// Equal hashes mean the same shape, order, keys, texts and scalars, as of a fingerprint.
    fn passing_hash(&self) -> Option<u128> {
        None
    }

    /// Append the value as compact JSON, where that is quickly done: it has at most so many values, nested at most so deep,
    /// and none that JSON does not know. False otherwise, with any part of it in `out`. No two keys of an object are equal in it.
    fn push_json(&self, _out: &mut String, _most_values: usize, _deepest: usize) -> bool {
        false
    }

    /// The name of the value's type for messages to people.
    fn type_name(&self) -> String {
        self.kind().name().to_owned()
    }

    /// The text at `key`, if there is one.
    fn text_at(&self, key: Key) -> Option<String> {
        self.get(key).and_then(|node| node.text().map(Cow::into_owned))
    }

    /// The value at `key` unless it is missing or null.
    fn given(&self, key: Key) -> Option<Self> {
        self.get(key).filter(|node| node.kind() != Kind::Null)
    }
}

/// A `serde_json` value, or a key of one.
#[derive(Debug, Clone, Copy)]
pub enum Json<'a> {
    /// A value.
    Value(&'a Value),
    /// The key of an entry.
    Key(&'a str),
}

impl Node for Json<'_> {
    const MAY_REPEAT_KEYS: bool = false;

    fn kind(&self) -> Kind {
        match self {
            Self::Key(_) | Self::Value(Value::String(_)) => Kind::Text,
            Self::Value(Value::Null) => Kind::Null,
            Self::Value(Value::Bool(_)) => Kind::Bool,
            Self::Value(Value::Number(_)) => Kind::Number,
            Self::Value(Value::Array(_)) => Kind::List,
            Self::Value(Value::Object(_)) => Kind::Object,
        }
    }

    fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Key(key) => Some(Cow::Borrowed(key)),
            Self::Value(value) => value.as_str().map(Cow::Borrowed),
        }
    }

    fn scalar(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Value(Value::Bool(value)) => Some(Cow::Borrowed(if *value { "true" } else { "false" })),
            Self::Value(Value::Number(value)) => Some(Cow::Owned(value.to_string())),
            _ => None,
        }
    }

    fn get(&self, key: Key) -> Option<Self> {
        match self {
            Self::Value(value) => value.get(key.text()).map(Self::Value),
            Self::Key(_) => None,
        }
    }

    fn items(&self) -> impl Iterator<Item = Self> {
        let list = match self {
            Self::Value(Value::Array(list)) => list.as_slice(),
            _ => &[],
        };
        list.iter().map(Self::Value)
    }

    fn entries(&self) -> impl Iterator<Item = (Self, Self)> {
        let object = match self {
            Self::Value(Value::Object(object)) => Some(object),
            _ => None,
        };
        object.into_iter().flatten().map(|(key, value)| (Self::Key(key), Self::Value(value)))
    }
}
