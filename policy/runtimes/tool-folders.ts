import { KiB } from '../../lib/bytes.ts'
import { toolRules } from '../hosts/installs.ts'
import { quotedShell } from './runtime.ts'

/** Where the build container finds the cache of an earlier build, if there is one: a file. */
export const earlierCacheAt = '/opt/berth/earlier.tgz'
/** The folder that receives the cache of this build; without one nothing is packed. */
export const newCacheAt = '/opt/berth/new'
/** Name of the file in it. */
export const newCacheName = 'cache.tgz'

/**
 * The shell text of a build whose tools find these folders as an earlier build left them. All of it runs in the build container, as the
 * application's user: the host sees one file, and never what is in it. Neither unpacking nor packing fails the build. Files of the
 * application get the current time first, since some tools take a file for unchanged that is older than their own output.
 */
export function withToolFolders(install: string, folders: readonly string[]): string {
  const names = folders.map(folder => quotedShell(folder.slice(1))).join(' ')
  const inApp = folders.filter(folder => folder.startsWith('/app/')).map(quotedShell)
  const remove = inApp.length > 0 ? `rm -rf ${inApp.join(' ')}` : ':'
  const { folderBytes, files, growth } = toolRules
  return `${remove}
present() { for folder in ${names}; do if [ -d "/$folder" ]; then echo "$folder"; fi; done; }
size() { cd / && du -ck $(present) /dev/null | tail -n 1 | cut -f 1; }
free() { df -Pk ${newCacheAt} | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4; }
pack() { cd / && folders=$(present) && [ -n "$folders" ] && [ "$(find $folders | head -n ${files + 1} | wc -l)" -le ${files} ] &&
  [ "$after" -le "$(free)" ] && tar -I 'gzip -1' -cf ${newCacheAt}/${newCacheName} $folders || rm -f ${newCacheAt}/${newCacheName}; }
before=0
if [ -f ${earlierCacheAt} ]; then
  if (find /app -xdev -type f -exec touch -c {} + && tar -xzf ${earlierCacheAt} -C /) 2> /dev/null; then before=$(size)
  else echo 'The cache of an earlier build could not be unpacked.'; (cd / && chmod -R u+w ${names}; rm -rf ${names}) 2> /dev/null; fi
fi
( ${install}
) || exit
if [ -d ${newCacheAt} ]; then
  after=$(size)
  if [ "$after" -le ${folderBytes / KiB} ] && [ $((after * 100)) -gt $((before * ${100 + growth * 100})) ]; then (pack) 2> /dev/null; fi
fi
${remove}
exit 0
`
}
