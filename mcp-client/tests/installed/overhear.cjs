// Loaded into a server of somebody else: appends each message that reaches it over HTTP to the file OVERHEARD,
// as `received MESSAGE` when it has come and `answered STATUS MESSAGE` when its answer begins.
const { appendFileSync } = require('node:fs');
const { Server, ServerResponse } = require('node:http');

const log = (...words) => appendFileSync(process.env.OVERHEARD, words.join(' ') + '\n');

const { emit } = Server.prototype;
Server.prototype.emit = function (event, request, response) {
    if (event === 'request') {
        const chunks = [];
        const { emit } = request;
        request.emit = function (name, chunk) {
            if (name === 'data') chunks.push(chunk);
            if (name === 'end') log('received', (response.overheard = Buffer.concat(chunks)));
            return emit.apply(this, arguments);
        };
    }
    return emit.apply(this, arguments);
};

const { writeHead } = ServerResponse.prototype;
ServerResponse.prototype.writeHead = function (status) {
    if (this.overheard) log('answered', status, this.overheard);
    return writeHead.apply(this, arguments);
};
