/** The name of the key by which requests are counted. */
export type Subject = 'ip' | 'path' | 'method' | 'user' | 'agent'

export const SUBJECTS: readonly Subject[] = ['ip', 'path', 'method', 'user', 'agent']
