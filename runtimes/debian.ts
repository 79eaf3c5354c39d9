import { readdir, readFile } from 'node:fs/promises'
import { ownVariables, runProcess, systemEnvironment } from '../lib/child-process.ts'

/**
 * This machine's package sources for one Debian suite, in the one-line or the stanza format, from /etc/apt (a closed network has
 * its mirror there). When it has none for this suite but runs another of Debian's, they are derived from those: a mirror serves all
 * suites. Empty when the machine runs another distribution. Third-party sources are left out.
 */
export async function packageSources(suite: string, folder = '/etc/apt'): Promise<string[]> {
  const sources = await sourcesOf(folder)
  const own = sources.filter(source => source.suites.some(name => suitesOf(suite).includes(name)))
  if (own.length > 0) return own.map(({ text }) => text)
  return derived(sources, suite)
}

interface Source {
  /** As it stands in the file. */
  text: string
  suites: string[]
}

async function sourcesOf(folder: string): Promise<Source[]> {
  const parts = await readdir(`${folder}/sources.list.d`).catch(() => [])
  const files = [`${folder}/sources.list`, ...parts.sort().map(name => `${folder}/sources.list.d/${name}`)]
  const sources: Source[] = []
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch(() => '')
    if (file.endsWith('.sources')) sources.push(...stanzas(text))
    else if (file.endsWith('.list')) sources.push(...lines(text))
  }
  return sources
}

const oneLine = /^\s*deb(\s+\[[^\]]*\])?\s+(\S+)\s+(\S+)\s+(.+?)\s*$/

function lines(text: string): Source[] {
  return text.split('\n').flatMap(line => {
    const suite = oneLine.exec(line)?.[3]
    return suite === undefined ? [] : [{ text: line, suites: [suite] }]
  })
}

function stanzas(text: string): Source[] {
  return text
    .split(/\n\s*\n/)
    .map(stanza =>
      stanza
        .split('\n')
        .filter(line => line.trim() && !line.startsWith('#'))
        .join('\n'),
    )
    .filter(stanza => /^Types:.*\bdeb(\s|$)/m.test(stanza) && !/^Enabled:\s*no/im.test(stanza))
    .map(stanza => ({ text: stanza, suites: /^Suites:\s*(.+)$/m.exec(stanza)?.[1]?.trim().split(/\s+/) ?? [] }))
}

const suitesOf = (suite: string): string[] =>
  suite === 'sid' ? ['sid'] : [suite, `${suite}-updates`, `${suite}-security`]

/** Suites that a machine can run. */
const releases = ['bullseye', 'bookworm', 'trixie', 'forky', 'duke', 'sid']

/** The sources of the suite that this machine runs, with the names of another one. */
function derived(sources: Source[], suite: string): string[] {
  const debian = sources.filter(isDebian)
  const present = releases.find(release => debian.some(({ suites }) => suites.includes(release)))
  if (present === undefined) return []
  const renamed = debian.flatMap(({ text, suites }) => {
    const wanted = suitesOf(suite).filter(name => suites.includes(name.replace(suite, present)))
    if (wanted.length === 0) return []
    if (!text.includes('Suites:'))
      return [text.trim().replace(oneLine, (_, options = '', uri) => `deb${options} ${uri} ${wanted[0]} main`)]
    return [text.replace(/^Suites:.*$/m, `Suites: ${wanted.join(' ')}`).replace(/^Components:.*$/m, 'Components: main')]
  })
  return [...new Set(renamed)]
}

/** Debian's own archive or a mirror of it: what third parties publish for a suite is signed with a key of theirs, or not called `main`. */
function isDebian({ text }: Source): boolean {
  const components = oneLine.exec(text)?.[4] ?? /^Components:\s*(.+)$/m.exec(text)?.[1] ?? ''
  const signedBy = /signed-by[=:]\s*([^\s\]]*)/i.exec(text)?.[1]
  return components.split(/\s+/).includes('main') && (signedBy === undefined || signedBy.includes('debian-archive'))
}

/** The machine's settings for package sources (proxies, certificate files, a frozen mirror), as options of apt. */
export async function transportOptions(): Promise<string[]> {
  const { stdout } = await runProcess('apt-config', ['dump', 'Acquire'], {
    env: { ...systemEnvironment, ...ownVariables(['APT_CONFIG']) },
  }).catch(() => ({ stdout: '' }))
  return stdout
    .split('\n')
    .filter(
      line =>
        /^Acquire::https?::.*(Proxy|CaInfo|CaPath|SslCert|SslKey)/i.test(line) ||
        /^Acquire::Check-(Valid-Until|Date) /i.test(line),
    )
    .filter(line => !line.endsWith('"";'))
}
