import test from 'ava'
import { type NpmStep, npmLeftOut, npmLeftOutUnlocked } from '../../policy/runtimes/npm-result.ts'

const lockOf = (packages: object) => JSON.stringify({ lockfileVersion: 3, packages })
const optional = { version: '1.0.0', optional: true }
const step: NpmStep = { architecture: 'x64', omitsDev: false }

test('an optional package that is missing makes a result incomplete, unless its own fields exclude the platform', t => {
  const path = 'node_modules/native'
  const leftOut = (entry: object, made: object | null = {}) =>
    npmLeftOut(lockOf({ '': {}, [path]: entry }), made && lockOf(made), step)
  t.is(leftOut(optional), `the optional package ${path} is missing`)
  t.is(leftOut({ ...optional, optional: false, devOptional: true }), `the optional package ${path} is missing`)
  t.is(leftOut(optional, { [path]: {} }), null)
  t.is(leftOut({ version: '1.0.0' }), null, 'npm fails without it')
  t.is(leftOut({ version: '1.0.0', dev: true }), null)
  for (const other of [{ os: ['darwin'] }, { os: ['!linux'] }, { cpu: ['arm64'] }, { libc: ['musl'] }, { os: 'win32' }])
    t.is(leftOut({ ...optional, ...other }), null, JSON.stringify(other))
  for (const own of [
    { os: ['linux'] },
    { os: ['!win32'] },
    { cpu: ['any'] },
    { cpu: ['arm64', 'x64'], libc: ['glibc'] },
    { os: 5 },
  ])
    t.truthy(leftOut({ ...optional, ...own }), JSON.stringify(own))
  t.truthy(leftOut(optional, null), 'without a report')
  for (const report of ['', '[]', '{"packages":5}', '{"packages":{"node_modules/native":null}}'])
    t.truthy(npmLeftOut(lockOf({ [path]: optional }), report, step), report)
  for (const lock of ['', 'null', '{"packages":null}', '{"packages":{"a":5}}']) t.is(npmLeftOut(lock, null, step), null)
})

/** An optional package for another system, and what only it requires. */
const wasm = {
  'node_modules/native-wasm32': { ...optional, cpu: ['wasm32'], dependencies: { runtime: '^1.0.0' } },
  'node_modules/runtime': { ...optional, dependencies: { lib: '^2.0.0' } },
  'node_modules/lib': optional,
}
const image = { version: '1.0.0', optionalDependencies: { 'native-wasm32': '1.0.0' } }
const project = { dependencies: { image: '1.0.0' } }
const whole = { '': project, 'node_modules/image': image, ...wasm }
const installed = { 'node_modules/image': image }

const missingIn = (packages: object, made: object = installed, changes: Partial<NpmStep> = {}) =>
  npmLeftOut(lockOf(packages), lockOf(made), { ...step, ...changes })
const missing = (name: string) => `the optional package node_modules/${name} is missing`

test('a package that is left out with another one, which its own fields exclude, is not missing', t => {
  t.is(missingIn(whole), null)
  t.is(missingIn(whole, { ...installed, 'node_modules/lib': optional }), null, 'one of them may be there')
  const circle = { ...whole, 'node_modules/lib': { ...optional, dependencies: { runtime: '1' } } }
  t.is(missingIn(circle), null)
  const nested = {
    ...whole,
    'node_modules/lib': { version: '3.0.0' },
    'node_modules/native-wasm32/node_modules/lib': optional,
    'node_modules/native-wasm32': { ...wasm['node_modules/native-wasm32'], dependencies: { lib: '2' } },
  }
  t.is(missingIn(nested, { ...installed, 'node_modules/lib': {}, 'node_modules/runtime': {} }), null)
  const requiring = {
    '': { dependencies: { image: '1' }, optionalDependencies: { wrapper: '1' } },
    'node_modules/image': image,
    'node_modules/wrapper': { ...optional, dependencies: { 'for-mac': '1', own: '1' } },
    'node_modules/for-mac': { ...optional, os: ['darwin'] },
    'node_modules/own': optional,
  }
  t.is(missingIn({ ...whole, ...requiring }), null, 'npm leaves out what requires it, and what only that requires')
})

test('a package that something else requires, or that is excluded on another machine only, is missing', t => {
  const others: Record<string, object> = {
    'an installed package': {
      'node_modules/image': { ...image, optionalDependencies: { 'native-wasm32': '1', runtime: '1' } },
    },
    'the project': { '': { ...project, optionalDependencies: { runtime: '1' } } },
    'the project, for development': { '': { ...project, devDependencies: { runtime: '1' } } },
    'a peer': { 'node_modules/image': { ...image, peerDependencies: { runtime: '1' } } },
  }
  for (const [what, other] of Object.entries(others)) t.is(missingIn({ ...whole, ...other }), missing('runtime'), what)
  t.is(missingIn({ ...whole, 'node_modules/image': { ...image, dependencies: { lib: '2' } } }), missing('lib'))
  t.is(missingIn(whole, installed, { architecture: 'wasm32' }), missing('native-wasm32'))
  t.is(missingIn({ ...whole, 'node_modules/alone': optional }), missing('alone'))
  const failed = { ...wasm, 'node_modules/native-wasm32': { ...wasm['node_modules/native-wasm32'], cpu: ['x64'] } }
  t.truthy(missingIn({ ...whole, ...failed }), 'a download that broke off')
  const alongside = { ...optional, dependencies: { runtime: '1' } }
  const both = { ...image, optionalDependencies: { 'native-wasm32': '1', alongside: '1' } }
  t.is(missingIn({ ...whole, 'node_modules/image': both, 'node_modules/alongside': alongside }), missing('runtime'))
  const optionally = {
    '': { optionalDependencies: { wrapper: '1' } },
    'node_modules/wrapper': { ...optional, optionalDependencies: { mac: '1' } },
  }
  t.is(missingIn({ 'node_modules/mac': { ...optional, os: ['darwin'] }, ...optionally }, {}), missing('wrapper'))
  const half = { ...installed, 'node_modules/runtime': wasm['node_modules/runtime'] }
  t.is(missingIn(whole, half), missing('lib'), 'what requires it is there')
  const circle = {
    'node_modules/a': { ...optional, dependencies: { b: '1' } },
    'node_modules/b': { ...optional, dependencies: { a: '1' } },
  }
  t.is(missingIn({ ...whole, ...circle }), missing('a'), 'a circle explains nothing')
})

test('packages for development are missing only where a step installs them, and require nothing where it omits them', t => {
  const tool = { version: '1.0.0', dev: true, optionalDependencies: { binary: '1', runtime: '1' } }
  const packages = {
    ...whole,
    'node_modules/tool': tool,
    'node_modules/binary': { ...optional, dev: true },
    'node_modules/runtime': { version: '1.0.0', devOptional: true, dependencies: { lib: '2' } },
  }
  t.is(missingIn(packages, installed, { omitsDev: true }), null)
  const others = { ...installed, 'node_modules/runtime': {}, 'node_modules/lib': {} }
  t.is(missingIn(packages, { ...others, 'node_modules/tool': tool }), missing('binary'))
  const both = { ...installed, 'node_modules/tool': tool, 'node_modules/binary': {} }
  t.is(missingIn(packages, both), missing('runtime'))
  t.is(missingIn(packages, { ...both, ...others }), null)
})

test('an optional package that npm leaves out of the list that it writes is missing', t => {
  const of = (lock: string | null) => npmLeftOutUnlocked(lock, lockOf(installed), step)
  t.is(of(lockOf(whole)), null)
  const { 'node_modules/native-wasm32': _, ...unknown } = whole
  t.is(of(lockOf(unknown)), 'the optional package native-wasm32 is missing')
  t.is(
    of(lockOf({ ...whole, '': { ...project, optionalDependencies: { own: '1' } } })),
    'the optional package own is missing',
  )
  t.is(of(lockOf({ ...whole, 'node_modules/own': optional })), missing('own'))
  for (const lock of [null, '', '{}', '{"packages":{}}'])
    t.is(of(lock), 'npm has written no package-lock.json', String(lock))
})

test('a list of packages that would take too long to follow has missing ones', t => {
  const path = `node_modules/${'a/node_modules/'.repeat(2000)}a`
  const names = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`n${n}`, '1']))
  t.is(missingIn({ ...whole, [path]: { dependencies: names } }, { ...installed, [path]: {} }), missing('runtime'))
  for (const odd of [
    { dependencies: 'x' },
    { dependencies: null },
    { dependencies: [['node_modules']] },
    { dependencies: 5 },
  ])
    t.is(missingIn({ ...whole, 'node_modules/odd': odd }, { ...installed, 'node_modules/odd': {} }), null)
})
