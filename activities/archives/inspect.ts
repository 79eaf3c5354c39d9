import { readCapped } from '../../lib/read-capped.ts'
import { type AppConfigFile, ConfigRefused, configNames, parseAppConfig } from '../../policy/apps/app-config.ts'
import { configTooLarge, maxConfigBytes, uploadRules } from '../../policy/archives/archive-rules.ts'
import { type ArchiveEntry, readDirectory } from './directory.ts'
import { contentOf, OutputMeter } from './inflate.ts'
import { ArchiveRefused, type InspectOptions } from './port.ts'

interface Inspected {
  entries: number
  bytes: number
  config: AppConfigFile | null
}

/** Reads every byte that an upload unpacks to, and its configuration file. Writes nothing; rejects with `ArchiveRefused`. */
export async function inspectArchive(fd: number, options: Omit<InspectOptions, 'account'>): Promise<Inspected> {
  const entries = await readDirectory(fd, uploadRules)
  const meter = new OutputMeter(uploadRules, entries)
  const configEntry = options.config === 'ignored' ? undefined : configOf(entries, options.configNames)
  let text = ''
  for (const entry of entries) {
    const content = contentOf(fd, entry, meter)
    if (entry === configEntry) text = await configText(content)
    else for await (const _ of content);
  }
  if (!configEntry && options.config === 'required') throw new ArchiveRefused('MISSING_CONFIG', missingConfig(entries))
  return {
    entries: entries.length,
    bytes: meter.bytes,
    config: configEntry ? parseConfig(text, entries, options.config === 'optional') : null,
  }
}

function configOf(entries: ArchiveEntry[], additionalNames: string[]): ArchiveEntry | undefined {
  const candidates = [...configNames, ...additionalNames].map(name =>
    entries.find(({ path, kind }) => path === name && kind === 'file'),
  )
  return candidates.find(entry => entry !== undefined)
}

/** The usual mistake is to zip the folder instead of its content. */
function missingConfig(entries: ArchiveEntry[]): string {
  const sentence = `The archive has no ${configNames.join(' or ')} at its root.`
  const inside = entries.find(({ path }) => /^[^/]+\/berth\.(app|config)$/.test(path))?.path
  return inside ? `${sentence} There is ${inside}: zip the content of that folder, not the folder itself.` : sentence
}

async function configText(content: AsyncIterable<Buffer>): Promise<string> {
  const bytes = await readCapped(content, maxConfigBytes)
  if (!bytes) throw new ArchiveRefused('INVALID_FILE', configTooLarge)
  return bytes.toString('utf8')
}

function parseConfig(text: string, entries: ArchiveEntry[], partial: boolean): AppConfigFile {
  const files = new Set(entries.filter(entry => entry.kind === 'file').map(entry => entry.path))
  try {
    return parseAppConfig(text, {
      partial,
      has: path => files.has(path),
      rootNames: [...files].filter(path => !path.includes('/')),
    })
  } catch (error) {
    throw error instanceof ConfigRefused ? new ArchiveRefused(error.code, error.message) : error
  }
}
