// Answers over Streamable HTTP in both eras: `PORT LOG` are its arguments; what its tools do is appended to LOG.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';

const [PORT, LOG] = process.argv.slice(-2);
const log = (...words) => appendFileSync(LOG, words.join(' ') + '\n');
const text = (text) => ({ content: [{ type: 'text', text }] });
const object = (properties) => fromJsonSchema({ type: 'object', properties, required: Object.keys(properties) });

function server() {
    const server = new McpServer({ name: 'fixture', version: '1.0.0' });
    server.registerTool('echo', { inputSchema: object({ message: { type: 'string' } }) }, ({ message }) => {
        log('echo', message);
        return text(message);
    });
    server.registerTool('hang', { inputSchema: object({ number: { type: 'integer' } }) }, ({ number }, ctx) => {
        log('hang', number);
        return new Promise((_, reject) => {
            ctx.mcpReq.signal.addEventListener('abort', () => {
                log('cancelled', number);
                reject(new Error('cancelled'));
            });
        });
    });
    server.registerResource('text', 'fixture://text', {}, (uri) => ({
        contents: [{ uri: uri.href, text: 'This is a text.' }],
    }));
    server.registerPrompt('ask', { argsSchema: object({ topic: { type: 'string' } }) }, ({ topic }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Say something about ${topic}.` } }],
    }));
    return server;
}

createServer(toNodeHandler(createMcpHandler(server))).listen(PORT, '127.0.0.1');
