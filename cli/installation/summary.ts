import type { Db } from '../../db/database.ts'
import { findHost } from '../../db/hosts/hosts.ts'
import { aiAddress } from '../../policy/ai/ai-settings.ts'
import type { DatabaseSettings } from '../../policy/databases/database-settings.ts'
import { mailWay } from '../../policy/mail/settings.ts'
import { toyModelName } from '../../workers/toy-model/text-generator.ts'
import { addressOf } from '../client/client.ts'
import { offerWords } from '../databases/offer.ts'
import { localTarget } from '../deploy.ts'
import { buildFindings } from '../doctor/builds.ts'
import { protectionFindings } from '../doctor/findings.ts'
import { bySupervisor } from '../doctor/manner.ts'
import { columns } from '../terminal/terminal.ts'
import { firstKey } from './first-account.ts'
import type { Installation } from './installation.ts'

/** The summary that a start prints once everything answers. */
export async function summary(installation: Installation, db: Db, exampleUrl: string | null): Promise<string> {
  const { config, dataDir } = installation
  const apiKey = await firstKey(installation, db)
  const host = await findHost(db, config.host.id)
  const protections = protectionFindings(host, bySupervisor)
  const notes = [...installation.notes, ...buildNotes(host)]
  const rows = columns([
    ...(exampleUrl ? [['Example', exampleUrl] as const] : []),
    ['Applications', addressOf(localTarget(installation), `<subdomain>.${config.appsDomain}`)],
    ...(config.edge.tls?.authority === 'local' ? [['Trust', trustWords] as const] : []),
    ['API', config.urls.base],
    ['Objects', config.urls.blob],
    ['S3', config.urls.s3],
    ['Databases', databaseWords(config.databases)],
    ...(config.ai.upstreams.length > 0 ? [['AI', gatewayWords(installation)] as const] : []),
    ['API key', apiKey ?? 'rotated; create another with: berth keys create --user admin@berth.local'],
    ['Temporal', config.temporalUiUrl ?? config.temporalAddress],
    ['Data', dataDir],
    ...(config.mail.smtp ? [] : [['Mail', mailWay(config.mail)] as const]),
    ...protections.map(({ name, state }) => [name[0]!.toUpperCase() + name.slice(1), state] as const),
  ])
  return [
    '',
    'Berth is up.',
    rows,
    '',
    '  Upload your own application (a zip with a berth.app in it):',
    `    curl -H "Authorization: ${apiKey ?? '<key>'}" -F file=@my-app.zip ${config.urls.base}/v2/apps`,
    ...(notes.length ? ['', ...notes.map(note => `  ${note}`)] : []),
    '',
  ].join('\n')
}

/** Images that a host prepares are no matter of a start: they come later, or when they are requested. */
const buildNotes = (host: Parameters<typeof buildFindings>[0]): string[] =>
  buildFindings(host)
    .filter(({ name }) => name !== 'build images')
    .flatMap(({ name, state, remedy }) =>
      remedy ? [`${name[0]!.toUpperCase() + name.slice(1)}: ${state}. To do: ${remedy}`] : [],
    )

const trustWords = 'certificates are signed by this installation; browsers must trust its root: berth certificates root'

/** Where clients reach the AI gateway. */
const gatewayWords = ({ config, runsToyModel }: Installation): string =>
  `${aiAddress(config)}${runsToyModel ? `, ${toyModelWords}` : ''}`

/** A person must not judge the gateway by what this model says. */
export const toyModelWords = `a TOY model on this machine (${toyModelName}): for trying things out only, its answers are often wrong`

/** Hosts prepare the images after their start, in the background. */
const databaseWords = (settings: DatabaseSettings): string =>
  `${offerWords(settings)}${settings.engines.length ? '; whether their images are ready: berth doctor' : ''}`
