import test from 'ava'
import { createSession, createUser, revokeSession } from '../../../../db/accounts/accounts.ts'
import type { Db } from '../../../../db/database.ts'
import {
  createUploadToken,
  findUploadToken,
  returnUploadTokenUse,
  useUploadToken,
} from '../../../../db/objects/uploads/upload-tokens.ts'
import { mapConcurrently } from '../../../../lib/async/concurrently.ts'
import { credentialHash } from '../../../../policy/accounts/credentials.ts'
import { newId } from '../../../../policy/ids.ts'
import { testDatabase } from '../../../kit/servers/database.ts'

const database = testDatabase()

async function tokenOf(db: Db, maxUses: number, lifeSeconds = 900) {
  const user = await createUser(db, { name: 'Ana', email: `${newId()}@example.org`, plan: 'hobby-1' })
  const session = await createSession(db, '11'.repeat(32), { userId: user.id, lifeSeconds: 60 })
  const token = { id: newId(), hash: credentialHash(newId()), pins: {}, maxUses, lifeSeconds }
  await createUploadToken(db, { ...token, ownerId: user.id, credentialId: session.id })
  return { ...token, session }
}

test('of 200 concurrent uses as many succeed as the token has, and one given back is available again', async t => {
  const { db } = await database
  const { id } = await tokenOf(db, 7)
  const uses = await mapConcurrently(Array(200).fill(id), 10, uploadToken => useUploadToken(db, uploadToken))
  t.is(uses.filter(Boolean).length, 7)
  await returnUploadTokenUse(db, id)
  t.true(await useUploadToken(db, id))
  t.false(await useUploadToken(db, id))
})

test('a token ends when it expires, and with the credential that minted it', async t => {
  const { db } = await database
  const over = await tokenOf(db, 1, 0)
  t.is(await findUploadToken(db, over.hash), undefined)
  t.false(await useUploadToken(db, over.id))
  const live = await tokenOf(db, 1)
  t.is((await findUploadToken(db, live.hash))?.token.id, live.id)
  await revokeSession(db, live.session.id)
  t.is(await findUploadToken(db, live.hash), undefined)
})
