import { homedir } from 'node:os'
import { join } from 'node:path'
import { engineOf } from '../../../activities/databases/engines/select.ts'
import { templateArchives } from '../../../activities/databases/templates/archives.ts'
import { type DatabaseTemplates, databaseTemplates } from '../../../activities/databases/templates/templates.ts'
import type { realDocker } from '../servers/docker.ts'

/** Prepared data folders of this machine, which hosts use too. What makes a missing one is below `folder`, and in containers of this run. */
export function sharedTemplates({ host, run }: ReturnType<typeof realDocker>, folder: string): DatabaseTemplates {
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache')
  return databaseTemplates({
    ...{ engine: host, engineOf, archives: templateArchives(join(cache, 'berth/database-templates')) },
    ...{ drafts: join(folder, 'template-drafts'), sharedUid: null, log: console },
    traits: { id: run, runtime: 'runc', configNames: [], buildProxy: null, caBundle: null },
  })
}
