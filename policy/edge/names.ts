/** Max applications behind one custom host name. */
export const maxMembers = 64
