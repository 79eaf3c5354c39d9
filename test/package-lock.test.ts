import { readFileSync } from 'node:fs'
import test from 'ava'

interface Package {
  version?: string
  optional?: boolean
  os?: string[]
  optionalDependencies?: Record<string, string>
}

const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Package> }

/** Where Node would find `name` from `path`: in its own folder of packages, or in one further out. */
function found(path: string, name: string): boolean {
  for (let from = path; ; from = from.slice(0, Math.max(from.lastIndexOf('/node_modules/'), 0))) {
    if (packages[`${from}${from && '/'}node_modules/${name}`]) return true
    if (!from) return false
  }
}

// A registry that lacks the builds for other systems makes npm write a lock file without them; `npm ci` then refuses it everywhere.
test('the lock file names the packages of every system, so that a fresh clone installs', t => {
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(name => !found(path, name)),
  )
  t.deepEqual(missing, [])
  t.deepEqual(
    Object.entries(packages).filter(([path, { version }]) => path !== '' && !version),
    [],
  )
})
