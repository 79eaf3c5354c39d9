import type { ArchiveLink, Digest, LinkTo } from '../../../policy/packages/documents.ts'
import type { WantedArchive } from '../archives.ts'
import type { WantedDocument } from '../documents.ts'
import type { Asker } from '../store.ts'

/** What a path of the cache stands for. */
export type Wanted =
  | { kind: 'archive'; archive: WantedArchive }
  | { kind: 'document'; document: WantedDocument }
  /** A long document without links, at this address of the registry. */
  | { kind: 'list'; url: string }

/** What the paths of a registry are made of. */
export interface RegistryParts {
  /** Address of the registry, with a slash at its end. */
  base: URL
  /** Address of the cache for this registry, without a slash at its end. */
  origin: string
  /** Distinguishes documents whose links differ. */
  variant: string
  /** An address of the cache for an archive that lies anywhere; null where it would be less safe than the registry itself. */
  signLink: LinkTo
  /** An address of the cache that stands for this text, without a slash at its end. */
  sealText(text: string): string
  /** The digest that a document has named for the archive at this address of the registry. */
  digestOf(url: string): Digest | null
  remember(archive: ArchiveLink): void
  /** The text of a document as the registry has it now; null when it has none, or does not answer. */
  read(document: WantedDocument, asker: Asker): Promise<string | null>
  /** The hash of the stored archive of this address, as lower-case hex; null when there is none. */
  hashOf(url: string, algorithm: Digest['algorithm'], asker: Asker): Promise<string | null>
}

/** What paths of the cache stand for; null for one that it does not serve. */
export interface KindPaths {
  /** A path below the address of the registry. `accept` is the header of the request. */
  at(path: string, accept: string): Wanted | null
  /** A path below an address for which a document got one of the cache by `sealText`. */
  atSealed?(text: string, path: string): Wanted | null
}
