import { type Figures, figuresOf } from '../views/stats.ts'
import type { Hosted } from './host-call.ts'
import type { HostServices } from './services.ts'

/** The figures of an application or a database, as its host reports them now. */
export async function currentFigures(
  hosted: Hosted,
  { hosts, rates }: Pick<HostServices, 'hosts' | 'rates'>,
): Promise<Figures> {
  const reading = await hosts.stats(hosted)
  return figuresOf(hosted, reading, rates.of(hosted.id, reading), Date.now())
}
