import test from 'ava'
import {
  isObjectName,
  keyParts,
  keyWithEnd,
  newRandomPart,
  objectId,
  objectKey,
  objectName,
  objectPrefix,
} from '../../../policy/objects/object-names.ts'
import {
  contentTypeOf,
  extensionOf,
  extensionOfType,
  isBlockedType,
  nameOfFile,
} from '../../../policy/objects/object-types.ts'

const owner = '123456789012345678'

test('an id contains bucket, account and key, and other texts are not ids', t => {
  for (const [id, bucket, key] of [
    [`pub/${owner}/a/b.txt`, 'public', 'a/b.txt'],
    [`prv/${owner}/x`, 'private', 'x'],
    [`${owner}/old file.txt`, 'legacy', 'old file.txt'],
    [`pub/${owner}/pub/x`, 'public', 'pub/x'],
  ] as const) {
    const name = { bucket, ownerId: owner, key }
    t.deepEqual(objectName(id), name)
    t.is(objectId(name), id)
  }
  const long = `pub/${owner}/${'é'.repeat(513)}`
  for (const id of [
    '',
    'pub/',
    `pub/${owner}`,
    `pub/${owner}/`,
    `x/${owner}/a`,
    'pub/12/a',
    `pub/${owner}/a\0`,
    `pub/${owner}/\ud800`,
    long,
  ])
    t.is(objectName(id), undefined, JSON.stringify(id))
})

test('a key is composed of its parts and parsed again', t => {
  const random = newRandomPart()
  t.regex(random, /^[a-z2-7]{16}$/)
  const expiresAt = new Date(1_790_000_000_000)
  for (const [key, parts] of [
    ['a/b/c.d.pdf', { prefix: 'a/b', name: 'c.d', extension: 'pdf' }],
    [`x_${random}-ex1790000000.tar.gz`, { prefix: '', name: 'x', random, expiresAt, extension: 'tar.gz' }],
    ['x-ex1790000000', { prefix: '', name: 'x', expiresAt, extension: '' }],
    [`a/x_${random}`, { prefix: 'a', name: 'x', random, extension: '' }],
    ['.hidden', { prefix: '', name: '.hidden', extension: '' }],
  ] as const) {
    t.is(objectKey(parts), key)
    t.deepEqual(keyParts(key), { random: undefined, expiresAt: null, ...parts })
  }
  t.is(keyParts('folder/'), undefined)
})

test('a key gets another end; only the suffix of its own end is replaced', t => {
  const [before, after] = [new Date(1_790_000_000_500), new Date(1_800_000_000_000)]
  const cases: [key: string, before: Date | null, after: Date | null, expected: string][] = [
    ['a/x.tar.gz', null, after, 'a/x-ex1800000000.tar.gz'],
    ['a/x_abcdefghijklmnop-ex1790000000.png', before, after, 'a/x_abcdefghijklmnop-ex1800000000.png'],
    ['a/x_abcdefghijklmnop-ex1790000000.png', before, null, 'a/x_abcdefghijklmnop.png'],
    ['x-ex1700000000', null, null, 'x-ex1700000000'],
    ['x_abcdefghijklmnop-ex1700000000.tar', before, after, 'x_abcdefghijklmnop-ex1700000000-ex1800000000.tar'],
    ['x-ex0170000000.tar', before, null, 'x-ex0170000000.tar'],
    ['-ex1790000000.tar', before, null, '-ex1790000000.tar'],
    ['my photos/', before, after, 'my photos/'],
  ]
  for (const [key, from, to, expected] of cases) t.is(keyWithEnd(key, from, to), expected, key)
})

test('names and prefixes are those of the contract', t => {
  for (const name of ['a', '_', 'a.b-c', 'a'.repeat(128)]) t.true(isObjectName(name), name)
  for (const name of ['', '.a', '-a', 'a b', 'a/b', 'a..b', 'a-ex12', 'é', 'a'.repeat(129)])
    t.false(isObjectName(name), name)
  t.is(objectPrefix('a/b/'), 'a/b')
  t.is(objectPrefix(''), '')
  t.is(objectPrefix(Array(8).fill('a').join('/')), 'a/a/a/a/a/a/a/a')
  for (const prefix of ['/', '/a', 'a//b', 'a/../b', Array(9).fill('a').join('/'), 'a'.repeat(65)])
    t.is(objectPrefix(prefix), undefined, prefix)
})

test('a file name is split into name and extension', t => {
  for (const [file, extension, name] of [
    ['Report v2.PDF', 'pdf', 'Report-v2'],
    ['x.tar.gz', 'tar.gz', 'x'],
    ['README', '', 'README'],
    ['.env', '', 'env'],
    ['C:\\temp\\Ação.jpg', 'jpg', 'Acao'],
    ['写真.png', 'png', ''],
    ['a-ex12.txt', 'txt', 'a'],
    ['a.b_c', undefined, 'a.b_c'],
    ['a.', undefined, 'a'],
  ] as const) {
    t.is(extensionOf(file), extension, file)
    t.is(nameOfFile(file), name, file)
  }
  const long = nameOfFile(`${'a'.repeat(127)}-ex1234567.txt`)
  t.true(isObjectName(long), long)
})

test('types and extensions map both ways, and programs are recognized', t => {
  t.is(contentTypeOf('jpeg'), 'image/jpeg')
  t.is(contentTypeOf('constructor'), 'application/octet-stream')
  t.is(extensionOfType('image/jpeg; q=1'), 'jpg')
  t.is(extensionOfType('IMAGE/PNG'), 'png')
  t.is(extensionOfType('constructor'), undefined)
  t.true(isBlockedType('exe'))
  t.false(isBlockedType('txt'))
})
