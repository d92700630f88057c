# SPDX-License-Identifier: Apache-2.0
# Completion of fgtrace-agent for bash. Flags are read from each verb's --help,
# so that they are never out of date.
_fgtrace_agent_targets()
{
	# The process's, not that of its service: the one behind the pid.
	local key='"start_time":[0-9]+,"name":"[^"\\]*"'
	[[ $2 == -p || $2 == --pid ]] && key='"pid":[0-9]+'
	"$1" targets --json 2>/dev/null | grep -oE "$key" | sed 's/.*"://; s/"//g'
}
_fgtrace_agent()
{
	local cur prev words cword verb i
	if declare -F _init_completion >/dev/null; then
		_init_completion -n = || return
	else
		words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
		cur=${words[cword]} prev=${words[cword - 1]}
	fi
	local verbs='daemon attach detach slice record convert status targets metrics tail triggers
		spool stacks why diff mcp config version help'
	for ((i = 1; i < cword; i++)); do
		case ${words[i]} in
		--socket) ((i++)) ;;
		-*) ;;
		*)
			verb=${words[i]}
			break
			;;
		esac
	done
	# Behind "record … --" the command is completed.
	if [[ $verb == record ]]; then
		for ((i = 1; i < cword; i++)); do
			if [[ ${words[i]} == -- ]]; then
				if declare -F _command_offset >/dev/null; then
					_command_offset $((i + 1))
				else
					mapfile -t COMPREPLY < <(compgen -c -- "$cur")
				fi
				return
			fi
		done
	fi
	case $prev in
	-f | --format)
		if [[ $verb =~ ^(why|stacks|diff|status|targets|triggers|spool)$ ]]; then
			mapfile -t COMPREPLY < <(compgen -W 'text md json' -- "$cur")
			return
		fi
		mapfile -t COMPREPLY < <(compgen -W 'fgt chrome sentry sentry-chunk pprof folded speedscope otlp perfetto md' -- "$cur")
		return
		;;
	--state-frames)
		mapfile -t COMPREPLY < <(compgen -W 'auto root leaf no' -- "$cur")
		return
		;;
	--otlp-shape)
		mapfile -t COMPREPLY < <(compgen -W 'timestamps sum' -- "$cur")
		return
		;;
	-p | --pid | -n | --name)
		# slice asks the daemon's targets; record takes any process.
		if [[ $verb == slice || $verb == tail || $verb == why || $verb == stacks ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(
				_fgtrace_agent_targets "${words[0]}" "$prev"
			)" -- "$cur")
			return
		fi
		;;&
	-p | --pid)
		mapfile -t COMPREPLY < <(compgen -W "$(ps -u "$(id -u)" -o pid=)" -- "$cur")
		return
		;;
	-n | --name)
		mapfile -t COMPREPLY < <(compgen -W "$(ps -u "$(id -u)" -o comm=)" -- "$cur")
		return
		;;
	-o | --output | --json-to | -c | --config | --dsn-file | --socket)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--from | --to)
		mapfile -t COMPREPLY < <(compgen -W '-10s -1m now +5s' -- "$cur")
		return
		;;
	--dir)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	--upload)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		return
		;;
	--last | --tid | --top | --threads | -d | --duration | -r | --rate | --max-cpu)
		return
		;;
	esac
	if [[ -z $verb ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$verbs --help --socket" -- "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(
			"${words[0]}" "$verb" --help 2>/dev/null |
				grep -oE -- '^ +(-., )?--[a-z-]+' | grep -oE -- '--[a-z-]+'
		)" -- "$cur")
	else
		case $verb in
		spool) mapfile -t COMPREPLY < <(compgen -W 'list flush drop' -- "$cur") ;;
		config) mapfile -t COMPREPLY < <(compgen -W 'check show' -- "$cur") ;;
		triggers) mapfile -t COMPREPLY < <(compgen -W 'try' -- "$cur") ;;
		help) mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur") ;;
		convert) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		attach | detach)
			mapfile -t COMPREPLY < <(compgen -W "$(ps -u "$(id -u)" -o comm=,pid=)" -- "$cur")
			;;
		esac
	fi
}
complete -F _fgtrace_agent fgtrace-agent
