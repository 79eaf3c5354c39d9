import test from 'ava'
import {
  isUploadToken,
  uploadToken,
  uploadTokenSecret,
  withPins,
} from '../../../../policy/objects/uploads/upload-tokens.ts'

const secret = uploadTokenSecret('11'.repeat(32))

test('a token is derived the same again, and cannot be derived without the secret', t => {
  for (let n = 0; n < 2000; n++) t.true(isUploadToken(uploadToken(secret, `id ${n}`)))
  t.is(uploadToken(secret, 'a'), uploadToken(secret, 'a'))
  t.not(uploadToken(secret, 'a'), uploadToken(secret, 'b'))
  t.not(uploadToken(secret, 'a'), uploadToken(uploadTokenSecret('22'.repeat(32)), 'a'))
})

test('pinned fields override what the uploader requests', t => {
  const asked = { name: 'mine', prefix: 'theirs', private: false, expire: '30d', metadata: { a: 'b' }, overwrite: true }
  const pins = { name: 'avatar', prefix: 'users/7', private: true, expire: '7d', metadata: { by: '7' }, max_size: 5 }
  const { max_size, ...fixed } = pins
  t.deepEqual(withPins(asked, pins), { ...fixed, overwrite: true })
})

test('fields without a pin are the uploader’s choice, except visibility and the exact name', t => {
  t.deepEqual(withPins({ name: 'mine', private: false, security_hash: false }, {}), {
    name: 'mine',
    security_hash: true,
  })
  t.deepEqual(withPins({ prefix: 'a' }, { name: 'b', private: false }), { prefix: 'a', name: 'b', private: false })
})
