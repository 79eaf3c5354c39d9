import test from 'ava'
import { npmLeftOut } from '../../policy/runtimes/npm-result.ts'

const lockOf = (packages: object) => JSON.stringify({ lockfileVersion: 3, packages })
const optional = { version: '1.0.0', optional: true }

test('an optional package that is missing makes a result incomplete, unless its own fields exclude the platform', t => {
  const path = 'node_modules/native'
  const leftOut = (entry: object, made: object | null = {}) =>
    npmLeftOut(lockOf({ '': {}, [path]: entry }), made && lockOf(made), 'x64')
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
    t.truthy(npmLeftOut(lockOf({ [path]: optional }), report, 'x64'), report)
  for (const lock of ['', 'null', '{"packages":null}', '{"packages":{"a":5}}'])
    t.is(npmLeftOut(lock, null, 'x64'), null)
})
