import test from 'ava'
import { hashPassword, isPassword } from '../../../api/v1/share-passwords.ts'

test('two passwords are hashed at a time, twenty wait, and further ones get KEEP_CALM', async t => {
  const hashes = Array.from({ length: 22 }, (_, n) => hashPassword(`password ${n}`))
  await t.throwsAsync(hashPassword('one more'), { code: 'KEEP_CALM' })
  const stored = await Promise.all(hashes)
  t.true(await isPassword('password 7', stored[7]!))
  t.false(await isPassword('password 8', stored[7]!))
})
