//! The least work that serde_json can do for a message.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(rename = "jsonrpc")]
    _version: &'a str,
    #[serde(rename = "id")]
    _id: i64,
    #[serde(borrow)]
    result: &'a RawValue,
}

#[derive(Deserialize)]
pub(crate) struct ToolResult {
    #[serde(rename = "content")]
    _content: Vec<Block>,
    #[serde(rename = "isError")]
    _is_error: bool,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    _kind: Kind,
    #[serde(rename = "text")]
    _text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Text,
}

#[derive(Deserialize)]
pub(crate) struct Tools {
    #[serde(rename = "tools")]
    _tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "title")]
    _title: Option<String>,
    #[serde(rename = "description")]
    _description: Option<String>,
    #[serde(rename = "inputSchema")]
    _input_schema: Box<RawValue>,
    #[serde(rename = "annotations")]
    _annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "readOnlyHint")]
    _read_only_hint: Option<bool>,
    #[serde(rename = "openWorldHint")]
    _open_world_hint: Option<bool>,
}

#[derive(Serialize)]
struct Call<'a> {
    jsonrpc: &'static str,
    id: i64,
    method: &'static str,
    params: Params<'a>,
}

#[derive(Serialize)]
struct Params<'a> {
    name: &'a str,
    arguments: &'a RawValue,
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    progress_token: i64,
}

pub(crate) fn tool_result(frame: &Bytes) -> ToolResult {
    let response: Response<'_> = serde_json::from_slice(frame).unwrap();
    serde_json::from_str(response.result.get()).unwrap()
}

pub(crate) fn tools(frame: &Bytes) -> Tools {
    let response: Response<'_> = serde_json::from_slice(frame).unwrap();
    serde_json::from_str(response.result.get()).unwrap()
}

pub(crate) fn call(id: i64, name: &str, arguments: &RawValue) -> Bytes {
    let params = Params { name, arguments, meta: Meta { progress_token: id } };
    serde_json::to_vec(&Call { jsonrpc: "2.0", id, method: "tools/call", params }).unwrap().into()
}
