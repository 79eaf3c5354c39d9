/** Whether a text names a repository as owner/name, and nothing else of the provider's addresses. */
export function isRepositoryName(text: string): boolean {
  const parts = text.split('/')
  return parts.length === 2 && parts.every(part => /^[\w.-]{1,100}$/.test(part) && !/^\.+$/.test(part))
}
