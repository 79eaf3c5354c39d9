import test from 'ava'
import { hashPassword, isPassword } from '../../../api/v1/share-passwords.ts'

test.serial('passwords of one account wait in turn and up to six; those of others pass them', async t => {
  const order: string[] = []
  const hashed = async (owner: string) => {
    const stored = await hashPassword(owner, `password of ${owner}`)
    order.push(owner)
    return stored
  }
  const ana = Array.from({ length: 6 }, () => hashed('ana'))
  await t.throwsAsync(hashPassword('ana', 'one more'), { code: 'KEEP_CALM' })
  const bob = await hashed('bob')
  t.true(order.indexOf('bob') <= 2, order.join())
  const [stored] = await Promise.all(ana)
  t.true(await isPassword('ana', 'password of ana', stored!))
  t.false(await isPassword('bob', 'password of ana', bob))
})

test.serial('two passwords are hashed at a time, twenty wait, and further ones get KEEP_CALM', async t => {
  const hashes = Array.from({ length: 22 }, (_, n) => hashPassword(`owner ${n % 5}`, `password ${n}`))
  await t.throwsAsync(hashPassword('owner 5', 'one more'), { code: 'KEEP_CALM' })
  await Promise.all(hashes)
})
