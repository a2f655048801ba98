// An authorization server and the server that it protects, in one process: `PORT LOG SCHEME` are its arguments. With
// the scheme DPoP, tokens have to be bound to a key, and both servers want a nonce of their own in each proof.
// A refresh token can be used once; whoever uses it again has the whole grant revoked. What happens is appended to
// LOG. GET /lifetime/SECONDS says how long access tokens last from now on, /expire ends those there are, and /revoke
// takes back what was granted, all behind the backs of the clients.
import { createHash, createPublicKey, randomBytes, verify } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server';
import Provider from 'oidc-provider';

const [PORT, LOG, SCHEME] = process.argv.slice(-3);
const isBound = SCHEME === 'DPoP';
let lifetime = 3600;
const origin = `http://127.0.0.1:${PORT}`;
const resource = `${origin}/mcp`;
const log = (...words) => appendFileSync(LOG, words.join(' ') + '\n');

const provider = new Provider(origin, {
    // A confidential client, which is registered by hand.
    clients: [
        {
            client_id: 'confidential',
            client_secret: 'a secret: with 100 % of what has to be escaped',
            application_type: 'native',
            grant_types: ['authorization_code', 'refresh_token'],
            redirect_uris: ['http://127.0.0.1/callback'],
            token_endpoint_auth_method: 'client_secret_basic',
        },
    ],
    cookies: { keys: ['a key of this test'] },
    scopes: ['openid', 'offline_access', 'tools'],
    ttl: { Grant: 3600, Interaction: 60, RefreshToken: 3600, Session: 3600 },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    features: {
        devInteractions: { enabled: false },
        dPoP: { enabled: isBound, nonceSecret: randomBytes(32), requireNonce: () => isBound },
        registration: { enabled: true },
        revocation: { enabled: true, allowedPolicy: () => true },
        resourceIndicators: {
            enabled: true,
            defaultResource: () => resource,
            useGrantedResource: () => true,
            getResourceServerInfo: () => ({
                scope: 'tools',
                accessTokenFormat: 'opaque',
                accessTokenTTL: lifetime,
            }),
        },
    },
    // A client that may refresh gets what it takes, whatever scopes it has asked for.
    issueRefreshToken: async (_, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
});

const grants = [];

// Whoever opens the page is Ada, and agrees.
async function consent(request, response) {
    const { prompt, params, session } = await provider.interactionDetails(request, response);
    if (prompt.name === 'login') {
        return provider.interactionFinished(request, response, { login: { accountId: 'ada' } });
    }
    const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope('openid offline_access tools');
    grant.addResourceScope(resource, 'tools');
    const grantId = await grant.save();
    grants.push(grantId);
    log('consent');
    return provider.interactionFinished(request, response, { consent: { grantId } });
}

const issued = [];
provider.on('access_token.saved', (token) => issued.push(token));

async function expire() {
    for (const token of issued.splice(0)) await token.destroy();
}

// The adapter forgets all that belongs to a grant, refresh tokens too.
async function revoke() {
    for (const grant of grants.splice(0)) await provider.AccessToken.revokeByGrantId(grant);
}

const EVENTS = ['registration_create.success', 'grant.success', 'grant.error', 'grant.revoked', 'server_error'];
for (const event of EVENTS) {
    provider.on(event, (ctx, error) => {
        const what = error?.error === 'use_dpop_nonce' ? 'grant.nonce' : event;
        log(what, ctx?.oidc?.params?.grant_type ?? '');
    });
}

function server() {
    const server = new McpServer({ name: 'protected', version: '1.0.0' });
    const inputSchema = fromJsonSchema({ type: 'object', properties: { message: { type: 'string' } } });
    server.registerTool('echo', { inputSchema }, ({ message }) => {
        log('echo', message);
        return { content: [{ type: 'text', text: message }] };
    });
    return server;
}

const mcp = toNodeHandler(createMcpHandler(server));
const metadata = { resource, authorization_servers: [origin], scopes_supported: ['tools'] };
if (isBound) Object.assign(metadata, { dpop_signing_alg_values_supported: ['ES256'] });

const nonce = randomBytes(16).toString('hex');
const identifiers = new Set();
const hash = (text) => createHash('sha256').update(text).digest('base64url');

// What is wrong with the proof that came with this token.
function fault({ method, headers }, token, jkt) {
    const [header, claims, signature] = headers.dpop?.split('.') ?? [];
    if (!signature) return 'invalid_dpop_proof';
    const read = (part) => JSON.parse(Buffer.from(part, 'base64url'));
    const { typ, alg, jwk } = read(header);
    const { htm, htu, iat, jti, ath, nonce: shown } = read(claims);
    const key = { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' };
    const isSigned = verify('sha256', `${header}.${claims}`, key, Buffer.from(signature, 'base64url'));
    const isOfKey = hash(JSON.stringify({ crv: jwk.crv, kty: jwk.kty, x: jwk.x, y: jwk.y })) === jkt;
    const isOfRequest = htm === method && htu === resource && Math.abs(Date.now() / 1000 - iat) < 60;
    const isNew = !identifiers.has(jti) && identifiers.add(jti);
    const isForm = typ === 'dpop+jwt' && alg === 'ES256' && ath === hash(token);
    if (!isForm || !isSigned || !isOfKey || !isOfRequest || !isNew) return 'invalid_dpop_proof';
    return shown === nonce ? undefined : 'use_dpop_nonce';
}

async function protect(request, response) {
    const token = request.headers.authorization?.match(`^${SCHEME} (.+)$`)?.[1];
    const known = token && (await provider.AccessToken.find(token));
    let error = token && 'invalid_token';
    if (known?.isValid && known.aud === resource) {
        error = isBound ? fault(request, token, known.jkt) : undefined;
        if (!error) return mcp(request, response);
    }
    log('refused', { invalid_token: 'stale', use_dpop_nonce: 'nonce' }[error] ?? error ?? 'nothing');
    const challenge = `${SCHEME} resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"`;
    response.setHeader('www-authenticate', error ? `${challenge}, error="${error}"` : challenge);
    if (isBound) response.setHeader('dpop-nonce', nonce);
    response.writeHead(401).end();
}

createServer((request, response) => {
    const { pathname } = new URL(request.url, origin);
    if (pathname === '/mcp') return protect(request, response);
    if (pathname === '/.well-known/oauth-protected-resource/mcp') {
        return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata));
    }
    if (pathname === '/expire') return expire().then(() => response.end());
    if (pathname === '/revoke') return revoke().then(() => response.end());
    if (pathname.startsWith('/lifetime/')) {
        lifetime = Number(pathname.split('/')[2]);
        return response.end();
    }
    if (pathname.startsWith('/interaction/')) return consent(request, response).catch((error) => log('broken', error));
    return provider.callback()(request, response);
}).listen(PORT, '127.0.0.1');
