import test from 'ava'
import {
  claimIdempotencyKey,
  type KeyedRequest,
  releaseIdempotencyKey,
  storeAnswer,
  sweepIdempotency,
} from '../../db/idempotency.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'

const database = testDatabase()
const answer = (name: string) => ({ status: 200, body: { name }, headers: {} })

async function keyed() {
  const { db } = await database
  const userId = (await rows(db).user()).id
  const request = (): KeyedRequest => ({
    ...{ userId, credentialId: 'c', isLimited: false, key: 'k', route: 'POST /x', fingerprint: 'f' },
  })
  const ago = (minutes: number) =>
    db('idempotency_keys')
      .where({ user_id: userId })
      .update({ created_at: db.raw(`now() - make_interval(mins => ?)`, [minutes]) })
  return { db, request, ago }
}

test('a first request that took too long has lost its key: it stores no answer, and frees no key', async t => {
  const { db, request, ago } = await keyed()
  const [slow, second] = [request(), request()]
  t.deepEqual(await claimIdempotencyKey(db, slow), { state: 'first' })
  t.deepEqual(await claimIdempotencyKey(db, request()), { state: 'running' })
  await ago(60)
  t.deepEqual(await claimIdempotencyKey(db, second), { state: 'first' })
  t.false(await storeAnswer(db, slow, answer('slow')))
  await releaseIdempotencyKey(db, slow)
  t.deepEqual(await claimIdempotencyKey(db, request()), { state: 'running' })
  t.true(await storeAnswer(db, second, answer('second')))
  t.like(await claimIdempotencyKey(db, request()), { state: 'answered', answer: answer('second') })
})

test('an answer is repeated for 24 hours, and then the key is free', async t => {
  const { db, request, ago } = await keyed()
  const first = request()
  await claimIdempotencyKey(db, first)
  await storeAnswer(db, first, answer('first'))
  await ago(24 * 60 - 5)
  await sweepIdempotency(db)
  t.like(await claimIdempotencyKey(db, request()), { state: 'answered', answer: answer('first') })
  await ago(24 * 60 + 5)
  t.deepEqual(await claimIdempotencyKey(db, request()), { state: 'first' })
})
