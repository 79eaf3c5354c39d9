import { readFileSync } from 'node:fs'
import test from 'ava'
import { needsDatabaseDrivers } from '../../../../cli/test/clients/database-drivers.ts'

test('the database drivers of Python are installed for runs that use them', t => {
  for (const files of [[], ['test/platform/databases/drivers.test.ts'], ['test/lib/bytes.test.ts', 'test/**']])
    t.true(needsDatabaseDrivers(files), files.join())
  for (const files of [['test/platform/databases/lifecycle.test.ts'], ['test/lib/**']])
    t.false(needsDatabaseDrivers(files), files.join())
})

test('the examples name one version of every driver, and those of Node are the ones that the platform has', t => {
  const python = readFileSync('examples/databases/python/requirements.txt', 'utf8').trim().split('\n')
  for (const line of python) t.regex(line, /^[\w-]+==[\d.]+$/)
  const { dependencies } = JSON.parse(readFileSync('examples/databases/node/package.json', 'utf8'))
  for (const [name, version] of Object.entries(dependencies))
    t.is(version, JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8')).version, name)
})
