import test from 'ava'
import type { Endpoint } from '../../../api/pipeline/endpoint.ts'
import { blobEndpoints } from '../../../api/v1/endpoints.ts'
import { revokeKey, revokeSession, setBlocked } from '../../../db/accounts/accounts.ts'
import { type Scope, scopes } from '../../../policy/accounts/scopes.ts'
import { testApi } from '../../kit/actors/api.ts'

// Who may call what on the blob API: one table, for every operation of its document and every kind of caller. What an operation
// then says to a caller whom it lets in is its own test's matter.

const api = testApi()

/** The scopes that let in, and whether an upload token does too. */
type Row = readonly [scopes: readonly Scope[], uploadToken?: true]
const reads: Row = [['blob:read']]
const writes: Row = [['blob:write']]
const uploads: Row = [['blob:write'], true]

const table: Record<string, Row> = {
  'objects.upload': uploads,
  'objects.list': reads,
  'objects.info': reads,
  'objects.update': writes,
  'objects.delete': writes,
  'objects.copy': writes,
  'objects.download': reads,
  'chunked.init': uploads,
  'chunked.part': uploads,
  'chunked.status': writes,
  'chunked.open': writes,
  'chunked.complete': uploads,
  'chunked.abort': uploads,
  'shares.create': writes,
  'shares.list': reads,
  'shares.delete': writes,
  'upload-tokens.create': writes,
  'rules.read': reads,
  'rules.save': writes,
  'blob.stats': reads,
  's3.credentials': [['blob:read', 'blob:write']],
}

test('the table knows every operation of the blob API', t => {
  t.deepEqual(blobEndpoints.map(({ name }) => name).sort(), Object.keys(table).sort())
})

const denials = [
  'ACCESS_DENIED',
  'MISSING_SCOPE',
  'RESOURCE_NOT_ALLOWED',
  'UPLOAD_TOKEN_NOT_ALLOWED',
  'ACCOUNT_BLOCKED',
]

for (const endpoint of blobEndpoints)
  test.serial(`only permitted callers may call ${endpoint.name}`, async t => {
    for (const [caller, { credential, verdict }] of Object.entries(await callersOf(table[endpoint.name]!, endpoint))) {
      const answer = await ask(credential, endpoint)
      const denied = denials.includes(answer.body.code) ? `${answer.status} ${answer.body.code}` : 'let in'
      t.is(denied, verdict, `${caller}: ${answer.text.slice(0, 80)}`)
      t.true(answer.status < 500, caller)
    }
  })

const unknown = '401 ACCESS_DENIED'
const lacking = '403 MISSING_SCOPE'

async function callersOf([granted, uploadToken]: Row, { name }: Endpoint) {
  const [ana, ended, blocked] = [await api().makeUser(), await api().makeUser(), await api().makeUser()]
  const key = async (input: Parameters<ReturnType<typeof api>['makeKey']>[1]) => (await api().makeKey(ana, input)).key
  const revoked = await api().makeKey(ana, {})
  const token = (await api().blobAs(ana).post('/v1/upload-tokens', '{}')).body.response.token
  await revokeKey(api().db, revoked.id)
  await revokeSession(api().db, ended.sessionId)
  await setBlocked(api().db, blocked.id, true)
  const each = granted.map(
    async scope => [`key with ${scope}`, call(await key({ scopes: [scope] }), 'let in')] as const,
  )
  return {
    'full key': call(ana.key, 'let in'),
    session: call(ana.session, 'let in'),
    ...Object.fromEntries(await Promise.all(each)),
    'key with every other scope': call(await key({ scopes: scopes.filter(name => !granted.includes(name)) }), lacking),
    'key of certain applications': call(await key({ resources: ['e'.repeat(24)] }), '403 RESOURCE_NOT_ALLOWED'),
    'upload token': call(token, uploadToken ? 'let in' : '403 UPLOAD_TOKEN_NOT_ALLOWED'),
    'upload token that never was': call(`bup_${'0'.repeat(64)}`, unknown),
    'revoked key': call(revoked.key, unknown),
    'expired key': call(await key({ expiresAt: new Date(0) }), unknown),
    'ended session': call(ended.session, unknown),
    'key of a blocked account': call(blocked.key, name === 'objects.upload' ? '403 ACCOUNT_BLOCKED' : unknown),
    'half a key': call(ana.key.slice(0, 65), unknown),
    nobody: call(undefined, unknown),
  }
}

const call = (credential: string | undefined, verdict: string) => ({ credential, verdict })

/** With nothing that the operation could do, so that only who calls decides. */
const ask = (credential: string | undefined, { method, path }: Endpoint) =>
  api()
    .blobAs(credential)
    .request(method, path, method === 'GET' ? {} : { body: '{}' })
