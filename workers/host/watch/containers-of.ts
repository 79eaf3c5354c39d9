import { type ContainerHost, type ListedContainer, labels } from '../../../activities/containers/port.ts'

/** Above this number one list of all is faster. */
const maxLists = 20

export interface ListedKind {
  engine: Pick<ContainerHost, 'list'>
  hostId: string
  /** The label that has the id of what a container belongs to. */
  label: string
  listAll(): Promise<ListedContainer[]>
}

/** The containers of some applications, or of some databases. */
export async function containersOf(
  { engine, hostId, label, listAll }: ListedKind,
  ids: ReadonlySet<string>,
): Promise<ListedContainer[]> {
  if (ids.size > maxLists) return (await listAll()).filter(container => ids.has(container.labels[label] ?? ''))
  const containers: ListedContainer[] = []
  for (const id of ids) containers.push(...(await engine.list({ [labels.host]: hostId, [label]: id })))
  return containers
}
