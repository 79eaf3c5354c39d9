// Whether a checkout is prepared: its packages are those of the lock file, its build that of the sources.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sourceHash, sourceStamp } from './build.mjs'

export function isReady(root) {
  try {
    return packagesInstalled(root) && isCompiled(root)
  } catch (error) {
    // A file went while it was looked at: the preparation looks again.
    if (error.code === 'ENOENT') return false
    throw error
  }
}

/** npm records at the end what it installed; the files are checked too, since two concurrent installs leave a record without them. */
export function packagesInstalled(root) {
  const wanted = readJson(join(root, 'package-lock.json'))?.packages ?? {}
  const present = readJson(join(root, 'node_modules/.package-lock.json'))?.packages
  if (!present) return false
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === '' || entry.optional || entry.link) return true
    return present[path]?.version === entry.version && existsSync(join(root, path, 'package.json'))
  })
}

/** Compares contents only if a file was written since the last time: reading all of them takes longer than most commands. */
export function isCompiled(root) {
  const seenPath = join(root, 'dist/.source-stamp')
  const stamp = sourceStamp(root)
  if (readText(seenPath) === stamp) return true
  if (readText(join(root, 'dist/.source-hash')) !== sourceHash(root)) return false
  try {
    writeFileSync(seenPath, stamp)
  } catch {
    // A checkout of another user: each start compares contents.
  }
  return true
}

export function readText(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return null
  }
}
