//! The chat formats: what is read, what belongs together, what it costs.

mod costs;
mod formats;
mod generated;
mod groups;

use serde_json::Value;

use super::group::{Groups, group};
use super::{Format, Json, Message, apply, parse_all};
use crate::tokens::Counter;
use crate::{Error, Result};

/// A token for each word, so that expected costs can be worked out by hand.
pub(super) struct Words;

impl Counter for Words {
    fn count(&self, text: &str) -> Result<u64> {
        Ok(text.split_whitespace().count() as u64)
    }

    fn cut(&self, _text: &str, _limit: u64) -> Result<usize> {
        Ok(0)
    }

    fn id(&self) -> u64 {
        0
    }
}

pub(super) fn nodes(messages: &Value) -> Vec<Json<'_>> {
    messages.as_array().into_iter().flatten().map(Json::Value).collect()
}

pub(super) fn read(format: Format, messages: &Value) -> Vec<Message> {
    parse_all(format, &nodes(messages)).expect("the messages are well formed")
}

pub(super) fn refused(format: Format, messages: &Value) -> (usize, String, String) {
    match parse_all(format, &nodes(messages)) {
        Err(Error::Message { index, path, reason }) => (index, path, reason),
        other => panic!("expected a message error, not {other:?}"),
    }
}

pub(super) fn groups_of(format: Format, messages: &Value) -> Groups {
    group(&read(format, messages))
}

/// Each group as the indices of its messages.
pub(super) fn indices(groups: &Groups) -> Vec<Vec<usize>> {
    groups.groups.iter().map(|group| group.indices().collect()).collect()
}

/// The messages that can be sent, repaired where needed, in order.
pub(super) fn sendable(format: Format, messages: &Value) -> Vec<Value> {
    let mut members: Vec<_> = groups_of(format, messages).groups.into_iter().flat_map(|group| group.members).collect();
    members.sort_by_key(|member| member.index);
    members.iter().map(|member| apply(&messages[member.index], &member.repairs)).collect()
}
