import { randomBytes } from 'node:crypto'
import test from 'ava'
import { credentialHash } from '../../../policy/accounts/credentials.ts'
import { isIssuedAddress, newWebhookAddress } from '../../../policy/git/webhooks/addresses.ts'
import { newId, randomBase62 } from '../../../policy/ids.ts'
import {
  earlierUploadToken,
  isIssuedToken,
  uploadToken,
  uploadTokenSecret,
} from '../../../policy/objects/uploads/upload-tokens.ts'
import { masterKey, openApiFor, testApi } from '../../kit/actors/api.ts'
import { deliver, webhookOf } from '../../kit/git/deliveries.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const api = testApi()
const database = testDatabase()
const secret = uploadTokenSecret(masterKey)

const tokenOf = async (who: { key: string }): Promise<string> =>
  (await api().blobAs(who.key).post('/v1/upload-tokens', '{"max_uses":5}')).body.response.token
const upload = (token: string) => {
  const body = new FormData()
  body.append('file', new Blob(['text']), 'a.txt')
  return api().blobAs(token).post('/v1/objects', body)
}

const rooted = (masterKey: string) => ({ masterKey, earlierKeyChecks: [] })

test('tokens and addresses contain a check that no one else can compute', t => {
  const token = uploadToken(secret, 'id')
  const address = newWebhookAddress(masterKey)
  t.regex(token, /^bup_[0-9A-Za-z]{64}$/)
  t.regex(address, /^[0-9a-f]{64}$/)
  t.true(isIssuedToken(secret, token) && isIssuedAddress(rooted(masterKey), address))
  t.not(newWebhookAddress(masterKey), address)
  const other = '22'.repeat(32)
  t.false(isIssuedToken(uploadTokenSecret(other), token) || isIssuedAddress(rooted(other), address))
  for (let at = 0; at < 64; at++) {
    const flipped = (text: string) => text.slice(0, at) + (text[at] === '0' ? '1' : '0') + text.slice(at + 1)
    t.false(isIssuedAddress(rooted(masterKey), flipped(address)))
    if (at > 3) t.false(isIssuedToken(secret, flipped(token)))
  }
})

test.serial('credentials of an earlier version keep working', async t => {
  const ana = await api().makeUser()
  const app = await api().makeApp(ana)
  const made = await webhookOf(api(), ana, app.id)
  const token = await tokenOf(ana)
  const { db } = api()
  const earlier = randomBytes(32).toString('hex')
  await db('git_webhooks')
    .where({ app_id: app.id })
    .update({ address_hash: credentialHash(earlier), created_at: new Date(0) })
  const { id } = await db('upload_tokens')
    .where({ hash: credentialHash(token) })
    .first()
  await db('upload_tokens')
    .where({ id })
    .update({ hash: credentialHash(earlierUploadToken(secret, id)) })
  t.is((await deliver(api(), `/v2/git/webhook/${earlier}`)).status, 200)
  t.is((await deliver(api(), made)).status, 404)
  t.is((await upload(earlierUploadToken(secret, id))).status, 200)
  t.is((await upload(token)).status, 401)
})

test.serial('a repeated request gets the answer of the earlier version unchanged', async t => {
  const ana = await api().makeUser()
  const mint = async () =>
    (await api().blobAs(ana).post('/v1/upload-tokens', '{}', { 'idempotency-key': 'k' })).body.response
  const { token, ...rest } = await mint()
  t.deepEqual(Object.keys(rest).sort(), ['expires_at', 'max_uses'])
  const { db } = api()
  const { id } = await db('upload_tokens')
    .where({ hash: credentialHash(token) })
    .first()
  const answer = JSON.stringify({ id, ...rest })
  await db('idempotency_keys')
    .where({ user_id: ana.id })
    .update({ body: JSON.stringify(answer) })
  t.deepEqual(await mint(), { token: earlierUploadToken(secret, id), ...rest })
})

test.serial('made-up credentials cost no statement once tokens of the earlier version have expired', async t => {
  const undo: (() => Promise<unknown>)[] = []
  t.teardown(async () => {
    for (const step of undo.reverse()) await step()
  })
  const later = await openApiFor(await database, {}, undo)
  const { db } = later
  await db('knex_migrations')
    .where({ name: '021-credential-checks' })
    .update({ migration_time: new Date(0) })
  const texts: string[] = []
  const ask = async (token: string, address: string) => {
    const tokens = await later.blobAs(token).get('/v1/objects')
    const webhook = await deliver(later, `/v2/git/webhook/${address}`)
    return [tokens.status, webhook.status]
  }
  const acquire = db.client.acquireConnection.bind(db.client)
  const heard = new WeakSet<object>()
  db.client.acquireConnection = async () => {
    const connection = await acquire()
    if (heard.has(connection)) return connection
    heard.add(connection)
    const query = connection.query.bind(connection)
    connection.query = (asked: string | { text: string }, ...rest: unknown[]) => {
      texts.push(typeof asked === 'string' ? asked : asked.text)
      return query(asked, ...rest)
    }
    return connection
  }
  const ofCredentials = () => texts.filter(text => /upload_tokens|git_webhooks/.test(text)).length
  t.deepEqual(await ask(`bup_${randomBase62(64)}`, randomBytes(32).toString('hex')), [401, 404])
  // The addresses of that time are learned once.
  t.is(ofCredentials(), 1)
  for (let n = 0; n < 5; n++) await ask(`bup_${randomBase62(64)}`, randomBytes(32).toString('hex'))
  t.is(ofCredentials(), 1)
  t.deepEqual(await ask(uploadToken(secret, newId()), newWebhookAddress(masterKey)), [401, 404])
  t.is(ofCredentials(), 3, 'what could be real is looked up')
  const dead = uploadToken(secret, newId())
  const insist = async () => t.is((await later.blobAs(dead).get('/v1/objects')).status, 401)
  for (let n = 0; n < 25; n++) await insist()
  const looked = ofCredentials()
  for (let n = 0; n < 5; n++) await insist()
  t.is(ofCredentials(), looked, 'who insists on a token that is over is refused unseen')
})
