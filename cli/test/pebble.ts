import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { findGo, goInstall } from '../services/go-install.ts'
import { cacheFolder, removeUnfinished } from '../services/temporal-binary.ts'
import { type Say, step } from '../terminal/terminal.ts'
import { runsFilesOf } from './wanted-files.ts'

const version = '2.10.1'
const source = `github.com/letsencrypt/pebble/v2/cmd/pebble@v${version}`

/** Whether a test run needs the certificate authority of the tests; other files that use it build it when they start. */
export const needsPebble = (files: readonly string[]): boolean => runsFilesOf(files, 'certificates')

/** Pebble, a small certificate authority that tests run: cached, or built from source. Throws `MissingPart` without Go. */
export async function pebbleBinary(say: Say): Promise<string> {
  const cached = join(cacheFolder(), `bin/pebble-${version}`)
  if (existsSync(cached)) return cached
  const go = findGo('Tests of certificates need the program Pebble. Install Go, so that Berth can build it.')
  mkdirSync(join(cacheFolder(), 'bin'), { recursive: true })
  removeUnfinished(cacheFolder())
  const folder = mkdtempSync(join(cacheFolder(), `pebble-${process.pid}-`))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  try {
    await step(say, 'building Pebble with Go (once, about a minute on 2 cores)', () => goInstall(go, source, folder))
    renameSync(join(folder, 'pebble'), cached)
    return cached
  } finally {
    process.off('exit', remove)
    remove()
  }
}
