import test from 'ava'
import fc from 'fast-check'
import { type InstallDependsOn, installFacts, installKey, toolFacts } from '../../../activities/installs/key.ts'
import { changedFacts } from '../../../policy/hosts/installs.ts'
import { runtimes } from '../../../policy/runtimes.ts'

const bytes = fc.uint8Array({ minLength: 1, maxLength: 64 }).map(array => Buffer.from(array))
const text = fc.string({ maxLength: 20 })
const inputNames = [
  'package.json',
  'package-lock.json',
  'pnpm-lock.yaml',
  'yarn.lock',
  '.npmrc',
  'requirements.txt',
  'composer.json',
  'composer.lock',
  'a/b.tgz',
]

const dependsOn: fc.Arbitrary<InstallDependsOn> = fc.record({
  release: fc.record({
    ownerId: text,
    language: fc.constantFrom('javascript' as const, 'typescript' as const, 'python' as const, 'php' as const),
    runtimeVersion: text,
  }),
  spec: fc.record({
    command: fc.array(text, { minLength: 1, maxLength: 3 }),
    env: fc.dictionary(text, text, { maxKeys: 3 }),
  }),
  imageId: text,
  architecture: text,
  certificates: fc.option(bytes),
  files: fc
    .dictionary(fc.constantFrom(...inputNames), bytes, { minKeys: 1 })
    .map(files => new Map(Object.entries(files))),
})

const keyOf = (on: InstallDependsOn): string => installKey(installFacts(on))

/** One byte of something, in every way that it may change. */
const flipped = (before: Buffer, at: number, bit: number): Buffer => {
  const after = Buffer.from(before)
  after[at % before.length]! ^= 1 << (bit % 8)
  return after
}

const changed = (before: string, at: number): string => {
  const place = at % (before.length + 1)
  return `${before.slice(0, place)}x${before.slice(place)}`
}

type Change = (on: InstallDependsOn, at: number, bit: number) => InstallDependsOn

const changes: Record<string, Change> = {
  'a byte of a file': (on, at, bit) => {
    const [name, content] = [...on.files][at % on.files.size]!
    return { ...on, files: new Map(on.files).set(name, flipped(content, at, bit)) }
  },
  'a file more': on => ({ ...on, files: new Map(on.files).set('more', Buffer.from('x')) }),
  'a file less': on => ({ ...on, files: new Map([...on.files].slice(1)) }),
  'two files exchanged': on => {
    const [[one, a], ...rest] = [...on.files] as [[string, Buffer], ...[string, Buffer][]]
    return { ...on, files: new Map([[`${one}2`, a], ...rest]) }
  },
  'the image': (on, at) => ({ ...on, imageId: changed(on.imageId, at) }),
  'the command': (on, at) => ({
    ...on,
    spec: { ...on.spec, command: [changed(on.spec.command[0]!, at), ...on.spec.command.slice(1)] },
  }),
  'where its words begin': on => ({ ...on, spec: { ...on.spec, command: [...on.spec.command, ''] } }),
  'a variable': (on, at) => ({
    ...on,
    spec: { ...on.spec, env: { ...on.spec.env, HTTP_PROXY: changed(on.spec.env.HTTP_PROXY ?? '', at) } },
  }),
  'the certificates': (on, at, bit) => ({
    ...on,
    certificates: on.certificates ? flipped(on.certificates, at, bit) : Buffer.from('x'),
  }),
  'the architecture': (on, at) => ({ ...on, architecture: changed(on.architecture, at) }),
  'the version of the language': (on, at) => ({
    ...on,
    release: { ...on.release, runtimeVersion: changed(on.release.runtimeVersion, at) },
  }),
  'the account': (on, at) => ({ ...on, release: { ...on.release, ownerId: changed(on.release.ownerId, at) } }),
}

for (const [what, change] of Object.entries(changes))
  test(`another key for another result: ${what}`, t => {
    fc.assert(
      fc.property(dependsOn, fc.nat(), fc.nat(), (on, at, bit) => {
        const other = change(on, at, bit)
        return keyOf(on) !== keyOf(other) && changedFacts(installFacts(on), installFacts(other)).length > 0
      }),
      { numRuns: 300 },
    )
    t.pass()
  })

test('another key for another version of yarn or pnpm', t => {
  const versionIn = /(pnpm|yarn)@(\d+\.\d+\.\d+)/
  for (const lock of ['pnpm-lock.yaml', 'yarn.lock']) {
    const step = runtimes.javascript.install({ files: ['package.json', lock], main: null })!
    t.regex(step, versionIn, 'an exact one')
    const keyWith = (on: InstallDependsOn, command: string) =>
      keyOf({ ...on, spec: { ...on.spec, command: [command] } })
    fc.assert(
      fc.property(dependsOn, fc.nat(), (on, at) => {
        const other = step.replace(versionIn, (_, name, version) => `${name}@${changed(version, at)}`)
        return keyWith(on, step) !== keyWith(on, other)
      }),
    )
  }
})

test('another key for another byte of the manifest, lock file, image or command of Composer', t => {
  const texts = { 'composer.json': '{"require":{"a/b":"^1.0"}}', 'composer.lock': '{"packages":[]}' }
  const step = runtimes.php.install({ files: Object.keys(texts), main: null })!
  const planned = runtimes.php.installInputs!(new Map(Object.entries(texts)))
  if ('because' in planned) return t.fail(planned.because)
  t.deepEqual(planned.files, Object.keys(texts))
  const files = new Map<string, Buffer>(Object.entries(texts).map(([name, content]) => [name, Buffer.from(content)]))
  const composer = (on: InstallDependsOn): InstallDependsOn => ({ ...on, files, spec: { ...on.spec, command: [step] } })
  const flips: Change[] = [...files].map(([name, content]) => (on, at, bit) => ({
    ...on,
    files: new Map(files).set(name, flipped(content, at, bit)),
  }))
  const others = [...flips, changes['the image']!, changes['the command']!]
  fc.assert(
    fc.property(dependsOn.map(composer), fc.nat(), fc.nat(), (on, at, bit) =>
      others.every(change => keyOf(change(on, at, bit)) !== keyOf(on)),
    ),
    { numRuns: 500 },
  )
})

const toolKeyOf = (on: InstallDependsOn, appId: string): string => installKey(toolFacts(appId, on))

for (const [what, change] of Object.entries(changes).filter(([what]) => !what.includes('file')))
  test(`another key for other tools: ${what}`, t => {
    fc.assert(
      fc.property(dependsOn, fc.nat(), fc.nat(), text, (on, at, bit, appId) => {
        const other = change(on, at, bit)
        return toolKeyOf(on, appId) !== toolKeyOf(other, appId)
      }),
      { numRuns: 300 },
    )
    t.pass()
  })

test('the tools of two applications never have one key, nor that of an install step', t => {
  fc.assert(
    fc.property(dependsOn, text, text, (on, one, other) => {
      const isOwn = (toolKeyOf(on, one) === toolKeyOf(on, other)) === (one === other)
      return (
        isOwn && toolKeyOf(on, one) !== keyOf(on) && toolKeyOf({ ...on, files: new Map() }, one) === toolKeyOf(on, one)
      )
    }),
    { numRuns: 300 },
  )
  t.pass()
})

test('equal facts have an equal key, in whatever order they are listed', t => {
  fc.assert(
    fc.property(dependsOn, on => {
      const env = Object.fromEntries(Object.entries(on.spec.env).reverse())
      const files = new Map([...on.files].reverse())
      return keyOf(on) === keyOf({ ...on, spec: { ...on.spec, env }, files })
    }),
  )
  t.pass()
})

test('two different sets of facts never have one key', t => {
  fc.assert(
    fc.property(dependsOn, dependsOn, (one, other) => {
      const isEqual = JSON.stringify(plain(one)) === JSON.stringify(plain(other))
      return (keyOf(one) === keyOf(other)) === isEqual
    }),
    { numRuns: 1000 },
  )
  t.pass()
})

const sorted = <T>(entries: [string, T][]): [string, T][] => entries.sort(([a], [b]) => (a < b ? -1 : 1))

const plain = (on: InstallDependsOn) => [
  ...[on.release.ownerId, on.release.language, on.release.runtimeVersion, on.imageId, on.architecture],
  ...[on.spec.command, sorted(Object.entries(on.spec.env)), on.certificates?.toString('hex') ?? null],
  sorted([...on.files].map(([name, content]) => [name, content.toString('hex')])),
]
