import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { temporalArchive, temporalVersion } from '../../policy/installation/temporal-release.ts'
import { type Say, step } from '../terminal/terminal.ts'
import { findGo, goInstall } from './go-install.ts'
import { findProgram } from './system-packages.ts'
import { download } from './verified-download.ts'

const source = `github.com/temporalio/cli/cmd/temporal@v${temporalVersion}`

/** The folder for what is expensive to obtain, outside of any checkout. */
export function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'berth')
}

/** The server's program: from the PATH, cached, downloaded, or built from source. Throws `MissingPart` if none of these works. */
export async function temporalBinary(say: Say): Promise<string> {
  const cached = join(cacheFolder(), 'bin/temporal')
  for (const candidate of [findProgram('temporal', process.env.PATH), cached]) {
    if (candidate && existsSync(candidate) && (await runs(candidate))) return candidate
  }
  mkdirSync(join(cacheFolder(), 'bin'), { recursive: true })
  removeUnfinished(cacheFolder())
  const folder = mkdtempSync(join(cacheFolder(), `temporal-${process.pid}-`))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  try {
    say('The Temporal server is not on this machine yet; it is fetched once and cached.')
    const program = (await downloadTemporal(folder, say)) ?? (await buildTemporal(folder, say))
    renameSync(program, cached)
    return cached
  } finally {
    process.off('exit', remove)
    remove()
  }
}

/** Removes what killed starts have left in a cache. */
export function removeUnfinished(folder: string): void {
  for (const name of readdirSync(folder)) {
    const pid = /^(?:temporal|pebble|s3-programs|database-drivers|openai-client|toy-model|toy-library)-(\d+)-/.exec(
      name,
    )?.[1]
    if (pid && !existsSync(`/proc/${pid}`)) rmSync(join(folder, name), { recursive: true, force: true })
  }
}

async function runs(program: string): Promise<boolean> {
  return runProcess(program, ['--version']).then(
    () => true,
    () => false,
  )
}

async function downloadTemporal(folder: string, say: Say): Promise<string | null> {
  const released = temporalArchive(process.platform, process.arch)
  if (!released) return null
  try {
    return await step(say, 'downloading Temporal', async () => {
      const archive = join(folder, 'temporal.tar.gz')
      await download(released, archive, say)
      await runProcess('tar', ['-xzf', archive, '-C', folder, 'temporal'], { env: systemEnvironment })
      const program = join(folder, 'temporal')
      if (!(await runs(program))) throw new Error('the downloaded program does not run')
      return program
    })
  } catch (error) {
    const cause = (error as { cause?: Error }).cause
    say(`  The download failed (${cause?.message ?? (error as Error).message}).`)
    return null
  }
}

async function buildTemporal(folder: string, say: Say): Promise<string> {
  const missing =
    'The Temporal server is missing. Put the program "temporal" (Temporal CLI) on the PATH, set TEMPORAL_ADDRESS to a running server, or install Go, so that Berth can build it.'
  const go = findGo(missing)
  await step(say, 'building Temporal with Go (once, about 5 minutes on 2 cores)', () => goInstall(go, source, folder))
  return join(folder, 'temporal')
}
