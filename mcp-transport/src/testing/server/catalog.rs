use serde_json::{Map, Value, json};

use super::{ServerScript, ToolBehaviour};

impl ServerScript {
    /// What the tool does; `None` if there is no such tool.
    pub(super) fn tool(&self, name: &str) -> Option<ToolBehaviour> {
        let standard = self.tools.iter().find(|(known, _)| known == name).map(|(_, behaviour)| *behaviour);
        standard.or_else(|| {
            let number: usize = name.strip_prefix("tool_")?.parse().ok()?;
            (number < self.extra_tools && name == extra_name(number)).then_some(ToolBehaviour::Echo)
        })
    }

    pub(super) fn capabilities(&self) -> Value {
        let mut capabilities = json!({"tools": {}, "logging": {}});
        if self.resources > 0 {
            capabilities["resources"] = json!({});
        }
        if self.prompts > 0 {
            capabilities["prompts"] = json!({});
        }
        capabilities
    }

    /// One page of the list that `method` asks for; `None` for a cursor that was never given out.
    pub(super) fn page(&self, method: &str, cursor: Option<&str>) -> Option<Map<String, Value>> {
        let (member, entries) = match method {
            "tools/list" => ("tools", self.list_tools()),
            "resources/list" => ("resources", (0..self.resources).map(resource).collect()),
            "resources/templates/list" => ("resourceTemplates", vec![template()]),
            _ => ("prompts", (0..self.prompts).map(prompt).collect()),
        };
        let size = if self.page_size == 0 { entries.len().max(1) } else { self.page_size };
        let number = match cursor {
            None => 0,
            Some(cursor) => cursor.strip_prefix("page-")?.parse::<usize>().ok()?,
        };
        let begin = number.checked_mul(size).filter(|begin| *begin == 0 || *begin < entries.len())?;
        let end = (begin + size).min(entries.len());
        let mut page = Map::new();
        page.insert(member.to_owned(), entries[begin..end].into());
        if end < entries.len() {
            page.insert("nextCursor".to_owned(), format!("page-{}", number + 1).into());
        }
        Some(page)
    }

    pub(super) fn read_resource(&self, uri: &str) -> Option<Value> {
        let number: usize = uri.strip_prefix("fixture://text/")?.parse().ok()?;
        let text = format!("This is text {number}.");
        (number < self.resources)
            .then(|| json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}))
    }

    pub(super) fn fill_prompt(&self, name: &str, arguments: &Value) -> Option<Value> {
        let number: usize = name.strip_prefix("prompt-")?.parse().ok()?;
        let topic = arguments["topic"].as_str().unwrap_or("nothing");
        let text = json!({"type": "text", "text": format!("Say something about {topic}.")});
        (number < self.prompts).then(
            || json!({"description": "asks for a text", "messages": [{"role": "user", "content": text}]}),
        )
    }

    fn list_tools(&self) -> Vec<Value> {
        let arguments = json!({"type": "object", "properties": {
            "message": {"type": "string"}, "payload": {"type": "integer"},
            "delay_ms": {"type": "integer"}, "progress": {"type": "integer"},
        }});
        let standard = self.tools.iter().map(|(name, behaviour)| {
            let schema = self.input_schemas.get(name).unwrap_or(&arguments);
            json!({"name": name, "description": describe(*behaviour), "inputSchema": schema})
        });
        standard.chain((0..self.extra_tools).map(extra_tool)).collect()
    }
}

fn describe(behaviour: ToolBehaviour) -> &'static str {
    match behaviour {
        ToolBehaviour::Crash(_) => "Ends the server.",
        ToolBehaviour::Echo => "Returns its message as text.",
        ToolBehaviour::Error(_) => "Answers with a protocol error.",
        ToolBehaviour::Fail => "Answers that it has failed.",
        ToolBehaviour::Hang => "Never answers.",
        ToolBehaviour::Slow(_) => "Returns its message as text, slowly.",
        ToolBehaviour::Stats => "Counters of this server.",
    }
}

fn extra_name(number: usize) -> String {
    format!("tool_{number:05}")
}

fn extra_tool(number: usize) -> Value {
    json!({
        "name": extra_name(number),
        "title": format!("Generated tool {number}"),
        "description": format!(
            "Tool number {number}. It looks a record up by its key and returns the fields asked for; \
             made to be about as long as real descriptions are."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "key": {"type": "string", "description": "key of the record"},
                "fields": {"type": "array", "items": {"type": "string"}, "description": "fields to return"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                "mode": {"type": "string", "enum": ["fast", "full"]},
            },
            "required": ["key"],
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    })
}

fn resource(number: usize) -> Value {
    json!({"uri": format!("fixture://text/{number}"), "name": format!("text {number}"), "mimeType": "text/plain"})
}

fn template() -> Value {
    json!({"uriTemplate": "fixture://text/{number}", "name": "text", "mimeType": "text/plain"})
}

fn prompt(number: usize) -> Value {
    json!({
        "name": format!("prompt-{number}"),
        "description": "asks for a text",
        "arguments": [{"name": "topic", "description": "what the text is about", "required": false}],
    })
}
