import test from 'ava'
import { databasePasswordKey } from '../../../../db/databases/authorities.ts'
import { loadDatabase } from '../../../../db/databases/databases.ts'
import { findOperation } from '../../../../db/operations/operations.ts'
import { databasePassword } from '../../../../policy/databases/passwords.ts'
import { type Answer, type TestUser, testApi, testKeys } from '../../../kit/actors/api.ts'
import { scriptedCertificate } from '../../../kit/fakes/scripted-database-lanes.ts'

const api = testApi()

test.beforeEach(() => {
  Object.assign(api().databaseLanes, { asleep: false, outcome: () => ({ state: 'success' }) })
})

const said = ({ status, body }: Answer) => [status, body.code]
const reset = (who: TestUser | string, id: string, body: unknown): Promise<Answer> =>
  api().as(who).post(`/v2/databases/${id}/credentials/reset`, JSON.stringify(body))
const certificateOf = (who: TestUser | string, id: string) =>
  api().as(who).get(`/v2/databases/${id}/credentials/certificate`)

test.serial('the certificate is the sealed one, in base64', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const { response } = (await certificateOf(ana, id)).body
  t.deepEqual(Object.keys(response), ['certificate'])
  t.is(Buffer.from(response.certificate, 'base64').toString(), scriptedCertificate(id))
})

test.serial('a password is replaced by that of the next generation, which is answered', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const key = await databasePasswordKey(api().db, testKeys)
  for (const generation of [2, 3]) {
    const answer = await reset(ana, id, { reset: 'password' })
    t.deepEqual(answer.body, { status: 'success', response: { password: databasePassword(key, id, generation) } })
    t.is((await loadDatabase(api().db, id))?.password_generation, generation)
    const operation = await findOperation(api().db, answer.headers.get('x-operation-id') ?? '')
    t.like(operation, { kind: 'rotate' as never, state: 'success' })
  }
})

test.serial(
  'the password that is answered is the one that this reset has set, although the next one has begun',
  async t => {
    const ana = await api().makeUser()
    const { id } = await api().makeDatabase(ana)
    // The row gets the generation of the next reset in the moment in which this one ends.
    await api().db.raw(`
    create function next_reset() returns trigger language plpgsql as $$ begin
      update databases set password_generation = password_generation + 1 where id = new.target_id;
      return null;
    end $$`)
    await api().db.raw(`create trigger next_reset after update on operations for each row
    when (new.kind = 'rotate' and new.state = 'success' and old.state <> 'success') execute function next_reset()`)
    try {
      const { response } = (await reset(ana, id, { reset: 'password' })).body
      t.is((await loadDatabase(api().db, id))?.password_generation, 3)
      t.is(response.password, databasePassword(await databasePasswordKey(api().db, testKeys), id, 2))
    } finally {
      await api().db.raw('drop function next_reset cascade')
    }
  },
)

test.serial('another certificate is issued without a password in the answer', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const answer = await reset(ana, id, { reset: 'certificate' })
  t.is(answer.text, '{"status":"success"}')
  t.like(await findOperation(api().db, answer.headers.get('x-operation-id') ?? ''), { kind: 'certify' as never })
  const { certificate } = (await certificateOf(ana, id)).body.response
  t.is(Buffer.from(certificate, 'base64').toString(), `${scriptedCertificate(id)} again`)
  t.is((await loadDatabase(api().db, id))?.password_generation, 1)
})

test.serial('only password and certificate can be reset, in this spelling', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  for (const value of [undefined, null, '', 'Password', 'both', 1, ['password'], {}, 'a\0', 'constructor'])
    t.deepEqual(said(await reset(ana, id, { reset: value })), [400, 'INVALID_RESET_TYPE'], JSON.stringify(value))
  t.deepEqual(said(await api().as(ana).post(`/v2/databases/${id}/credentials/reset`)), [400, 'INVALID_RESET_TYPE'])
  t.deepEqual(said(await api().as(ana).post(`/v2/databases/${id}/credentials/reset`, '"password"')), [
    400,
    'INVALID_JSON_BODY',
  ])
})

test.serial('credentials of a database that does not run are neither shown nor replaced', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  for (const status of ['created', 'starting', 'restarting', 'exited', 'deleting']) {
    await api().db('databases').where({ id }).update({ status })
    t.deepEqual(said(await certificateOf(ana, id)), [400, 'DATABASE_NOT_RUNNING'], status)
    for (const what of ['password', 'certificate'])
      t.deepEqual(said(await reset(ana, id, { reset: what })), [400, 'DATABASE_NOT_RUNNING'], status)
  }
  t.is((await api().db('operations').where({ target_id: id })).length, 1)
})

test.serial('a reset that fails is RESET_FAILED without the reason, and the password stays', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  for (const code of ['ACTION_FAILED', 'READ_FAILED', undefined]) {
    api().databaseLanes.outcome = () => ({ state: 'error', code, message: 'an internal word' })
    const answer = await reset(ana, id, { reset: 'password' })
    t.deepEqual(said(answer), [500, 'RESET_FAILED'])
    t.notRegex(answer.text, /internal word/)
  }
  api().databaseLanes.outcome = () => ({ state: 'error', code: 'DATABASE_NOT_RUNNING', message: 'It has ended.' })
  t.deepEqual(said(await reset(ana, id, { reset: 'password' })), [400, 'DATABASE_NOT_RUNNING'])
  t.is((await loadDatabase(api().db, id))?.password_generation, 1)
})

test.serial('a certificate that cannot be decrypted, or is not issued, is READ_FAILED', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const { client_sealed: sealed } = await api().db('databases').where({ id }).first()
  const broken = Buffer.from(sealed)
  broken.writeUInt8(broken.readUInt8(broken.length - 1) ^ 1, broken.length - 1)
  for (const client_sealed of [broken, null]) {
    await api().db('databases').where({ id }).update({ client_sealed })
    t.deepEqual(said(await certificateOf(ana, id)), [400, 'READ_FAILED'])
  }
})

test.serial('only the scope for credentials opens them', async t => {
  const ana = await api().makeUser()
  const { id } = await api().makeDatabase(ana)
  const { key: writer } = await api().makeKey(ana, { scopes: ['databases:read', 'databases:write'] })
  const { key: reader } = await api().makeKey(ana, { scopes: ['databases:credentials'] })
  t.deepEqual(said(await certificateOf(writer, id)), [403, 'MISSING_SCOPE'])
  t.deepEqual(said(await reset(writer, id, { reset: 'password' })), [403, 'MISSING_SCOPE'])
  t.is((await certificateOf(reader, id)).status, 200)
  t.is((await reset(reader, id, { reset: 'password' })).status, 200)
  t.deepEqual(said(await api().as(reader).get(`/v2/databases/${id}`)), [403, 'MISSING_SCOPE'])
})
