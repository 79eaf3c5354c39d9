import test from 'ava'
import { createKey, findUserByKeyHash } from '../../../db/accounts/accounts.ts'
import { credentialHash } from '../../../policy/accounts/credentials.ts'
import { statementsOf } from '../../kit/rows/plans-of.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()

test('keys that are looked up together share a statement, and each finds its own account or none', async t => {
  const { db } = await database
  const masterKey = 'ab'.repeat(32)
  const users = [await rows(db).user(), await rows(db).user(), await rows(db).user()]
  const keys: string[] = []
  for (const user of users) keys.push((await createKey(db, masterKey, { userId: user.id })).key)
  await db('api_keys').where({ user_id: users[1]!.id }).update({ revoked_at: new Date() })
  const asked = [keys[2]!, keys[1]!, 'no key of anybody', keys[0]!, keys[2]!]
  let found: (string | undefined)[] = []
  const sent = await statementsOf(async () => {
    found = (await Promise.all(asked.map(key => findUserByKeyHash(db, credentialHash(key))))).map(row => row?.id)
  })
  t.is(sent.length, 1)
  t.deepEqual(found, [users[2]!.id, undefined, undefined, users[0]!.id, users[2]!.id])
})
